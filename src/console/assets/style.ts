// The stylesheet of the console. All colours of text have a contrast of at least 4.5 on the grounds they are used on.

export const style = String.raw`
:root{color-scheme:light dark;--ground:#f6f7f9;--panel:#fff;--text:#1b1f27;--muted:#565e6d;--line:#d9dde4;--soft:#eef0f4;
--accent:#0b5cad;--on-accent:#fff;--good:#12693a;--good-ground:#e0f4e8;--warn:#7d4a00;--warn-ground:#fdf0d5;--bad:#a81a1a;
--bad-ground:#fde5e5;--off:#4d5564;--off-ground:#e8ebf0;--received:#a9c6ea;--answered:#2f9e62;--refused:#8a93a3;--held:#d9820f}
@media (prefers-color-scheme:dark){:root{--ground:#12151b;--panel:#1b1f27;--text:#e6e9ef;--muted:#a3acbb;--line:#343b48;
--soft:#242a34;--accent:#74b3f5;--on-accent:#0d1420;--good:#6fd69b;--good-ground:#15331f;--warn:#f3bd63;--warn-ground:#3a2b0c;
--bad:#ff9a94;--bad-ground:#46191a;--off:#b3bccb;--off-ground:#2a313d;--received:#2f4a6d;--answered:#41ad72;--refused:#737d8e;
--held:#e0922a}}
*{box-sizing:border-box}
[hidden]{display:none!important}
html{-webkit-text-size-adjust:100%;scroll-padding-top:4rem}
body{margin:0;background:var(--ground);color:var(--text);font:0.9375rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
a{color:var(--accent);text-underline-offset:.15em}
h1{font-size:1.35rem;line-height:1.25;margin:0 0 1rem}
h2{font-size:1.05rem;line-height:1.3;margin:0 0 .75rem}
p{margin:0 0 .75rem}
code,pre,.mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.86em}
pre{overflow:auto;background:var(--soft);border-radius:.4rem;padding:.75rem;margin:0 0 .75rem;white-space:pre-wrap;overflow-wrap:anywhere}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px;border-radius:.2rem}
main:focus{outline:none}
.skip{position:absolute;left:-99rem;top:0;background:var(--accent);color:var(--on-accent);padding:.5rem 1rem;z-index:9}
.skip:focus{left:0}
.hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.muted{color:var(--muted)}
.reason{display:block;font-size:.86em;background:none}
.nowrap{white-space:nowrap}
.wrap{overflow-wrap:anywhere}

.top{position:sticky;top:0;z-index:5;display:flex;align-items:center;gap:.25rem 1.25rem;padding:0 1.25rem;background:var(--panel);border-bottom:1px solid var(--line);min-height:3.1rem}
.brand{font-weight:700;color:var(--text);text-decoration:none;letter-spacing:-.01em}
.top nav{flex:1;min-width:0;overflow-x:auto;scrollbar-width:none}
.top ul{display:flex;gap:.15rem;list-style:none;margin:0;padding:0}
.top nav a{display:block;padding:.8rem .7rem;color:var(--muted);text-decoration:none;white-space:nowrap;border-bottom:2px solid transparent}
.top nav a:hover{color:var(--text)}
.top nav a:focus-visible{outline-offset:-3px}
.top nav a[aria-current]{color:var(--text);font-weight:600;border-color:var(--accent)}
.top form{margin:0}
#live{font-size:.8rem;color:var(--muted);white-space:nowrap}
#live.on::before,#live.off::before{content:"";display:inline-block;width:.5rem;height:.5rem;border-radius:50%;margin-right:.4rem;background:var(--answered)}
#live.off{color:var(--bad)}
#live.off::before{background:var(--bad)}
main,.flash{max-width:78rem;margin:0 auto;padding:1.5rem 1.25rem 4rem}
.flash{max-width:75.5rem;margin:1rem auto 0;padding:.7rem 1rem;border-radius:.5rem;width:calc(100% - 2.5rem);overflow-wrap:anywhere}
.good{color:var(--good);background:var(--good-ground)}
.warn{color:var(--warn);background:var(--warn-ground)}
.bad{color:var(--bad);background:var(--bad-ground)}
.off{color:var(--off);background:var(--off-ground)}

.panel{background:var(--panel);border:1px solid var(--line);border-radius:.6rem;padding:1rem 1.1rem;margin:0 0 1.25rem}
.panel>:last-child{margin-bottom:0}
.panel.flush{padding:0;overflow:hidden}
.panel.flush>h2{padding:1rem 1.1rem .6rem;margin:0}
.panel.flush>p{padding:0 1.1rem 1rem}
.notices{list-style:none;padding:0;margin:0 0 1.25rem;display:grid;gap:.5rem}
.notices li{padding:.65rem 1rem;border-radius:.5rem;overflow-wrap:anywhere}
.notices a{color:inherit;font-weight:600}
.empty{padding:2.5rem 1rem;text-align:center;color:var(--muted)}
.head{display:flex;flex-wrap:wrap;align-items:baseline;gap:.25rem 1rem;margin:0 0 1rem}
.head h1{margin:0}
.stats{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.5rem,1fr));gap:.75rem;margin:0 0 1.25rem;padding:0;list-style:none}
.stats li>*{display:block;background:var(--panel);border:1px solid var(--line);border-radius:.6rem;padding:.7rem .9rem;color:inherit;text-decoration:none;height:100%}
.stats a:hover{border-color:var(--accent)}
.stats strong{display:block;font-size:1.5rem;line-height:1.2;font-variant-numeric:tabular-nums}
.stats .alarm strong{color:var(--bad)}
.stats .watch strong{color:var(--warn)}

.badge{display:inline-block;padding:.1rem .55rem;border-radius:1rem;font-size:.8rem;font-weight:600;white-space:nowrap}
.scroll{overflow-x:auto;position:relative}
table{width:100%;border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{text-align:left;vertical-align:top;padding:.55rem .7rem;border-top:1px solid var(--line)}
thead th{border-top:0;color:var(--muted);font-size:.8rem;font-weight:600;white-space:nowrap;background:var(--panel)}
th:first-child,td:first-child{padding-left:1.1rem}
th:last-child,td:last-child{padding-right:1.1rem}
tbody th{font-weight:600}
tbody tr:hover{background:var(--soft)}
td.number,th.number{text-align:right}
td .muted,th .muted{display:block;font-weight:400;font-size:.86rem}
td.pick,th.pick{width:2.4rem}
input[type=checkbox]{width:1.1rem;height:1.1rem;margin:.15rem 0 0;accent-color:var(--accent)}

button,.button,select,input[type=text],input[type=search],textarea{font:inherit;color:var(--text);background:var(--panel);border:1px solid var(--muted);border-radius:.4rem;padding:.38rem .75rem}
button,.button{cursor:pointer;font-weight:600;text-decoration:none;display:inline-block}
button:hover,.button:hover{background:var(--soft)}
button.main{background:var(--accent);border-color:var(--accent);color:var(--on-accent)}
button.main:hover{filter:brightness(1.08)}
button.risk{color:var(--bad);border-color:var(--bad)}
button.quiet{border-color:transparent;background:none;color:var(--muted);font-weight:400}
button.quiet:hover{color:var(--text);background:var(--soft)}
textarea{width:100%;min-height:5rem}
form{margin:0}
label{display:inline-block}
.filters,.actions{display:flex;flex-wrap:wrap;align-items:end;gap:.6rem;margin:0 0 1rem}
.filters label span,.field span{display:block;font-size:.8rem;color:var(--muted);margin-bottom:.15rem}
.actions{margin:0;align-items:center}
.bar{padding:.7rem 1.1rem;border-top:1px solid var(--line)}
details>summary{cursor:pointer;color:var(--accent);width:fit-content}
details.act{display:inline-block}
details.act[open]{display:block;background:var(--soft);border-radius:.5rem;padding:.75rem;width:100%}
details.act>form{margin-top:.6rem;display:flex;flex-wrap:wrap;gap:.6rem;align-items:end}
.pager{display:flex;gap:1rem;align-items:center;margin:1rem 0;justify-content:space-between}
details.act>summary{white-space:nowrap}
td.act details[open]{min-width:15rem;white-space:normal}
.panel>.bar.head{border-top:0;margin:0;justify-content:space-between}
.reasons{list-style:none;margin:0;padding:0}
.reasons li{display:flex;flex-wrap:wrap;align-items:center;gap:.5rem 1rem;padding:.6rem 1.1rem;border-top:1px solid var(--line)}
.reasons .what{flex:1 1 18rem;min-width:0;overflow-wrap:anywhere}
.tabs ul,.codes{display:flex;flex-wrap:wrap;gap:.35rem;list-style:none;margin:0 0 1rem;padding:0}
.tabs a{display:block;padding:.4rem .8rem;border:1px solid var(--line);border-radius:.5rem;text-decoration:none;color:var(--text);background:var(--panel)}
.tabs a[aria-current]{border-color:var(--accent);box-shadow:inset 0 0 0 1px var(--accent);font-weight:600}
.codes a{text-decoration:none;padding:.25rem .7rem}
.codes a[aria-current]{box-shadow:inset 0 0 0 2px var(--accent)}
.facts{display:grid;grid-template-columns:minmax(7rem,max-content) 1fr;gap:.35rem 1.25rem;margin:0 0 1rem}
.facts dt{color:var(--muted)}
.facts dd{margin:0;overflow-wrap:anywhere}

.chart{display:grid;grid-template-columns:auto 1fr;gap:.25rem .6rem;margin:0 0 .75rem;font-size:.78rem;color:var(--muted);font-variant-numeric:tabular-nums}
.chart svg{width:100%;height:11rem;display:block;overflow:visible}
.chart .rows,.chart .times{display:flex;justify-content:space-between}
.chart .rows{flex-direction:column;text-align:right;margin:-.55rem 0}
.chart .times{grid-column:2}
.chart .grid{stroke:var(--line);stroke-width:1}
.received{fill:var(--received)}.answered{fill:var(--answered)}.refused{fill:var(--refused)}.held{fill:var(--held)}
.legend{display:flex;flex-wrap:wrap;gap:.3rem 1.25rem;list-style:none;margin:0 0 .5rem;padding:0}
.legend svg{width:.75rem;height:.75rem;margin-right:.4rem;vertical-align:-.05rem}

.steps{list-style:none;margin:0;padding:0}
.steps>li{display:grid;grid-template-columns:9.5rem 1fr;gap:.25rem 1rem;padding:.7rem 1.1rem;border-top:1px solid var(--line)}
.steps>li:first-child{border-top:0}
.steps .at{font-size:.86rem;font-variant-numeric:tabular-nums}
.steps .at .muted{display:block}
.steps .what{min-width:0}
.steps p{margin:0 0 .35rem}
.hop{display:block;width:100%;max-width:30rem;height:.5rem;margin:0 0 .4rem}
.hop rect{fill:var(--refused)}
.hop .axis{fill:var(--soft)}
.hop .good{fill:var(--answered)}
.hop .warn{fill:var(--held)}
.hop .bad{fill:var(--bad)}
iframe.mail{width:100%;min-width:min(40rem,80vw);height:24rem;border:1px solid var(--line);border-radius:.4rem;background:#fff;margin:.5rem 0}

.gate{max-width:34rem;margin:12vh auto 0;padding:0 1.25rem}
.gate .panel{padding:1.75rem}
.gate button{min-width:12rem;padding:.6rem 1rem}

@media (max-width:56rem){
.steps>li{grid-template-columns:1fr}
.top{flex-wrap:wrap;padding:.35rem 1rem 0;position:static}
.top nav{order:9;flex-basis:100%;margin:0 -.5rem}
.top ul{flex-wrap:wrap}
.top .brand{flex:1}
.top nav a{padding:.6rem .55rem}
main{padding:1rem 1rem 3rem}
.flash{width:calc(100% - 2rem)}
table.cards,table.cards tbody,table.cards tr,table.cards td,table.cards th{display:block;width:auto}
table.cards thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
table.cards tr{border-top:1px solid var(--line);padding:.6rem 1rem;position:relative}
table.cards tr:first-child{border-top:0}
table.cards td,table.cards th{border:0;padding:.12rem 0;text-align:left}
table.cards td[data-label]{display:grid;grid-template-columns:7rem 1fr;gap:.5rem}
table.cards td[data-label]::before{content:attr(data-label);color:var(--muted);font-size:.86rem}
table.cards td[data-label]:empty{display:none}
table.cards td.pick{position:absolute;right:.75rem;top:.6rem}
.filters label,.filters select,.filters input{flex:1 1 9rem;width:100%}
.reasons li{padding:.6rem 1rem}
}
@media (prefers-reduced-motion:no-preference){button,.button,a{transition:background-color .12s,border-color .12s,color .12s}}
@media print{.top,.actions,.filters,.pager{display:none}}

.split{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1.35fr);gap:1.25rem;align-items:start}
.split>*{min-width:0}
.field{display:block;margin:0 0 .6rem}
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
