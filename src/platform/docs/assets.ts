// The script of the page: builds a request from a form, shows it as curl, sends it, shows the response, and
// searches operations. External data is never inserted as markup, and the page's policy would block it.

export const script = String.raw`
"use strict";
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const base = location.href.replace(/\/api\/external\/docs\/.*$/s, "");
for (const place of all(".origin")) place.textContent = base;

function requestOf(form) {
  const { method, header, key } = form.dataset;
  let path = form.dataset.path;
  const query = new URLSearchParams();
  for (const { name, value, dataset } of form.elements) {
    if (dataset.in === "path" && value) path = path.replace("{" + name + "}", encodeURIComponent(value));
    if (dataset.in === "query" && value) query.set(name, value);
  }
  const text = form.querySelector("[data-in=body]");
  return {
    method, header,
    url: base + path + (query.size > 0 ? "?" + query : ""),
    key: document.getElementById("key-" + key).value,
    variable: key === "agent" ? "$AGENT_KEY" : "$ORGANIZATION_KEY",
    text: text ? text.value : null,
    file: form.querySelector("[data-in=file]"),
    add: form.querySelector("[data-in=add]"),
  };
}

const quoted = (text) => "'" + text.replaceAll("'", "'\\''") + "'";

// The key itself is never shown: the shell is to know it.
function curlOf({ method, url, header, variable, text, file, add }) {
  const lines = ["curl " + (method === "GET" ? "" : "-X " + method + " ") + quoted(url), '-H "' + header + ": " + variable + '"'];
  if (text !== null) lines.push("-H 'content-type: application/json'", "-d " + quoted(text));
  if (file) {
    lines.push("-F " + quoted("file=@" + (file.files[0] ? file.files[0].name : "FILE")));
    if (add.checked) lines.push("-F 'autoAddToVectorStore=true'");
  }
  return lines.join(" \\\n  ");
}

async function send(form) {
  const { method, url, header, key, text, file, add } = requestOf(form);
  const state = form.querySelector("output");
  const shown = form.querySelector(".answer");
  shown.hidden = true;
  state.textContent = "Sending …";
  const headers = { [header]: key };
  let body;
  if (text !== null) { body = text; headers["content-type"] = "application/json"; }
  if (file) {
    body = new FormData();
    body.set("file", file.files[0]);
    if (add.checked) body.set("autoAddToVectorStore", "true");
  }
  const began = performance.now();
  try {
    const response = await fetch(url, { method, headers, body, cache: "no-store", credentials: "omit" });
    const bytes = await response.blob();
    const took = Math.round(performance.now() - began);
    await show(shown, bytes, form, response);
    const wait = response.headers.get("retry-after");
    state.className = response.ok ? "good" : "bad";
    state.textContent = response.status + " " + response.statusText + ", " + took + " ms"
      + (wait ? ", try again in " + wait + " s" : "") + (key ? "" : " (no " + header + " was given)");
  } catch (error) {
    state.className = "bad";
    state.textContent = "Not sent, or not answered: " + error.message;
  }
}

async function show(shown, bytes, form, response) {
  const type = response.headers.get("content-type") || "";
  shown.textContent = "";
  shown.hidden = bytes.size === 0;
  if (!type.includes("json")) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(bytes);
    link.download = "document";
    link.textContent = "Save " + bytes.size + " bytes";
    shown.append(link);
    return;
  }
  const text = await bytes.text();
  try {
    const value = JSON.parse(text);
    shown.textContent = JSON.stringify(value, null, 2);
    if (response.ok) passOn(form.dataset, value);
  } catch { shown.textContent = text; }
}

// What was just made is what the next calls are about: its id goes where they ask for it and nobody has written.
function passOn({ field, fills }, value) {
  if (!field || typeof value[field] !== "string") return;
  const name = fills.slice(fills.lastIndexOf("{") + 1, -1);
  for (const form of all("form.call")) {
    const input = form.querySelector('[data-in=path][name="' + name + '"]');
    if (!input || !form.dataset.path.startsWith(fills)) continue;
    if (input.value && input.value !== input.dataset.filled) continue;
    input.value = input.dataset.filled = value[field];
    draw(form);
  }
}

const draw = (form) => { form.querySelector(".curl").textContent = curlOf(requestOf(form)); };

for (const form of all("form.call")) {
  draw(form);
  const examples = form.querySelector(".examples");
  if (examples) examples.addEventListener("change", () => {
    form.querySelector("[data-in=body]").value = examples.value;
    draw(form);
  });
  form.addEventListener("input", () => draw(form));
  form.addEventListener("submit", (event) => { event.preventDefault(); void send(form); });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); form.requestSubmit(); }
  });
  const copy = form.querySelector(".copy");
  copy.hidden = !navigator.clipboard;
  copy.addEventListener("click", async () => {
    const state = form.querySelector("output");
    state.className = "";
    try { await navigator.clipboard.writeText(curlOf(requestOf(form))); state.textContent = "Copied."; }
    catch (error) { state.textContent = "Not copied: " + error.message; }
  });
}
document.getElementById("key-form").addEventListener("submit", (event) => event.preventDefault());

document.getElementById("find").addEventListener("input", ({ target }) => {
  const words = target.value.toLowerCase().split(/\s+/);
  for (const operation of all(".operation")) operation.hidden = !words.every((word) => operation.dataset.words.includes(word));
  for (const tag of all(".tag")) tag.hidden = all(".operation:not([hidden])", tag).length === 0;
  document.getElementById("none").hidden = all(".tag:not([hidden])").length > 0;
});

// A link to something that is folded or filtered away brings it out.
function reveal(id) {
  const target = document.getElementById(id);
  if (!target) return;
  if (target.closest("[hidden]")) {
    const find = document.getElementById("find");
    find.value = "";
    find.dispatchEvent(new Event("input"));
  }
  for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  target.scrollIntoView();
}
addEventListener("hashchange", () => reveal(decodeURIComponent(location.hash.slice(1))));
document.addEventListener("click", ({ target }) => {
  const link = target.closest('a[href^="#"]');
  if (link && link.hash === location.hash) reveal(decodeURIComponent(link.hash.slice(1)));
});
if (matchMedia("(max-width: 62rem)").matches) document.getElementById("contents").open = false;
if (location.hash) reveal(decodeURIComponent(location.hash.slice(1)));
`;

// The style sheet of the page: light and dark mode, and widths down to a phone.

export const style = `
:root {
  color-scheme: light dark;
  --text: light-dark(#1c2430, #dde3ea); --quiet: light-dark(#4d5868, #a5b0bf); --ground: light-dark(#fff, #14171c);
  --panel: light-dark(#f4f6f9, #1d2128); --line: light-dark(#d3d9e2, #353c48); --link: light-dark(#0b57a4, #82b9ff);
  --must: light-dark(#a3231b, #ff9d94); --good: light-dark(#17653a, #74d39a); --bad: light-dark(#a3231b, #ff9d94);
}
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; }
body { margin: 0 auto; padding: 0 1rem 4rem; max-width: 82rem; color: var(--text); background: var(--ground);
  font: 16px/1.55 system-ui, sans-serif; overflow-wrap: anywhere; }
a { color: var(--link); }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; border-radius: 2px; }
.skip { position: absolute; left: -100rem; } .skip:focus { left: 1rem; top: .5rem; background: var(--ground); padding: .3rem .6rem; z-index: 1; }
header { padding: 1.5rem 0 .5rem; border-bottom: 1px solid var(--line); margin-bottom: 1rem; }
header p { margin: .2rem 0; }
h1 { margin: 0; font-size: 1.8rem; line-height: 1.2; } h1 small { font-size: 1rem; font-weight: 400; color: var(--quiet); }
h2 { margin: 2.2rem 0 .6rem; font-size: 1.4rem; border-bottom: 1px solid var(--line); padding-bottom: .2rem; }
h3 { margin: 1.6rem 0 .4rem; font-size: 1.1rem; } h5 { margin: 1.2rem 0 .3rem; font-size: .95rem; }
.tag > h3 { text-transform: capitalize; }
code, pre, textarea { font: .875em/1.5 ui-monospace, "DejaVu Sans Mono", monospace; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: .7rem .9rem; margin: .5rem 0;
  overflow: auto; max-height: 28rem; overflow-wrap: normal; }
.curl, .shell { white-space: pre-wrap; overflow-wrap: anywhere; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; padding: 0 .9rem; background: var(--ground); }
details[open] { padding-bottom: .8rem; }
summary { cursor: pointer; padding: .5rem 0; }
summary h4, summary h3 { display: inline; margin: 0 .5rem 0 0; font-size: 1rem; font-weight: 600; }
summary h3 { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .92rem; }
.operation > summary > span { color: var(--quiet); }
.operation[open] > summary { border-bottom: 1px solid var(--line); }
.method { display: inline-block; min-width: 4.2rem; margin-right: .3rem; padding: .05rem .4rem; border-radius: 4px; color: #fff;
  font: 700 .75rem/1.6 system-ui, sans-serif; text-align: center; }
.get { background: #0b57a4; } .post { background: #17653a; } .put { background: #7d4a00; } .delete { background: #a3231b; }
.status { border: 0; border-left: 3px solid var(--line); border-radius: 0; }
.status summary { padding: .25rem 0; }
.good { color: var(--good); } .bad { color: var(--bad); }
.must { color: var(--must); font-size: .8rem; }
.type { color: var(--quiet); font-size: .85rem; }
.fields { margin: .4rem 0; } .fields > div { border-top: 1px solid var(--line); padding: .35rem 0; }
.fields dt > code { font-weight: 600; } .fields dd { margin: 0 0 0 1rem; font-size: .93rem; }
.fields .fields { border-left: 2px solid var(--line); padding-left: .8rem; }
.call { background: var(--panel); border-radius: 6px; padding: .6rem .9rem; margin: .8rem 0; }
.call pre { background: var(--ground); }
.parameters { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(17rem, 100%), 1fr)); column-gap: 1rem; }
label { display: block; } label > span { font-weight: 600; font-size: .9rem; }
.field { margin-bottom: .7rem; } .hint { margin: .1rem 0 0; font-size: .85rem; color: var(--quiet); }
input:not([type=checkbox]), select, textarea { display: block; width: 100%; max-width: 100%; padding: .4rem .5rem; color: inherit;
  background: var(--ground); border: 1px solid light-dark(#7d8898, #77828f); border-radius: 5px; }
input, select { font: inherit; } textarea { resize: vertical; field-sizing: content; min-height: 5rem; } .tick { margin-top: .5rem; }
.buttons { display: flex; gap: .6rem; margin: .8rem 0 .2rem; }
button { font: inherit; padding: .4rem 1.1rem; border-radius: 5px; border: 1px solid var(--link); background: transparent;
  color: var(--link); cursor: pointer; }
.send { background: #0b57a4; border-color: #0b57a4; color: #fff; font-weight: 600; }
output { display: block; font-weight: 600; } output:empty { display: none; }
nav ul { list-style: none; margin: 0; padding: 0 0 0 .8rem; } nav > details > ul { padding: 0; } nav li { margin: .15rem 0; }
nav a { text-decoration: none; } nav a:hover { text-decoration: underline; } .verb { color: var(--quiet); font-size: .7rem; }
#key-form { border: 1px solid var(--line); border-radius: 6px; padding: .7rem .9rem; } #key-form label { margin-bottom: .5rem; }
@media (min-width: 62rem) {
  body { display: grid; grid-template-columns: 18rem minmax(0, 1fr); column-gap: 2rem; }
  header { grid-column: 1 / -1; }
  aside { position: sticky; top: 0; align-self: start; max-height: 100vh; overflow: auto; padding: 2px 2px 1rem; }
  main > section:first-of-type h2 { margin-top: 0; }
}
@media (max-width: 30rem) { body { padding: 0 .7rem 3rem; } details { padding: 0 .6rem; } ol { padding-left: 1.2rem; } }
@media print { aside, .call { display: none; } }
`;
