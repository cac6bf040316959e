// Styles of messages and of the stages that a message passes: escalations and the playground.

export const messageStyle = String.raw`
.split{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1.35fr);gap:1.25rem;align-items:start}
.split>*{min-width:0}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(11rem,1fr));gap:.6rem;margin:0 0 .6rem}
.field{display:block;margin:0 0 .6rem}
.pair .field{margin:0}
.field input,.field textarea,.field select{width:100%}
.said{list-style:none;margin:0 0 1rem;padding:0;display:grid;gap:.6rem}
.said>li{border:1px solid var(--line);border-radius:.6rem;padding:.55rem .8rem;background:var(--panel);overflow-wrap:anywhere}
.said>li.person,.said>li.mine{background:var(--soft)}
.said>li.reply{margin-left:1.5rem}
.said .by{display:flex;flex-wrap:wrap;gap:0 .75rem;font-size:.86em;color:var(--muted);margin:0 0 .2rem}
.said .by strong{color:var(--text)}
.said .text{margin:0;white-space:pre-wrap;unicode-bidi:plaintext;overflow-wrap:anywhere}
.said details{margin-top:.4rem}
.track{list-style:none;display:flex;flex-wrap:wrap;gap:.3rem;margin:.5rem 0 0;padding:0}
.track li{padding:.1rem .55rem;border-radius:1rem;font-size:.8rem;background:var(--soft);color:var(--muted);border:1px solid var(--line)}
.track li.done{background:var(--good-ground);color:var(--good);border-color:transparent}
.track li.stop{background:var(--warn-ground);color:var(--warn);border-color:transparent;border-radius:.5rem}
.track small{font-variant-numeric:tabular-nums;font-size:inherit;font-weight:400}
.modes{display:flex;flex-wrap:wrap;gap:.25rem;margin:0 0 1rem;padding:0;list-style:none;border-bottom:1px solid var(--line)}
.modes a{display:block;padding:.45rem .8rem;text-decoration:none;color:var(--muted);border-bottom:2px solid transparent}
.modes a[aria-current]{color:var(--text);font-weight:600;border-color:var(--accent)}
.acts{display:grid;gap:.5rem}
.acts details.act{display:block}
.acts details.act>form{display:block}
.acts details>p{margin:.5rem 0 0}
.acts summary{padding:.2rem 0}
.acts .refused{margin:0 0 .5rem;padding:.6rem .8rem;border-radius:.5rem}
.plain{list-style:none;margin:0;padding:0;display:grid;gap:.4rem}
.split.first{grid-template-columns:minmax(0,1.35fr) minmax(0,1fr)}
@media (max-width:60rem){.split,.split.first{grid-template-columns:minmax(0,1fr)}}
`;
