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
