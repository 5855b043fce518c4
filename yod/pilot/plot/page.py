"""The pictures of a session as one page without anything from elsewhere."""

from __future__ import annotations

from html import escape

from msgspec import json

from yod.pilot.analysis.curves import QUANTILES
from yod.pilot.plot import svg
from yod.pilot.plot.view import COLOURS, LINES, WORDS, View

_FAILED_MAX = 200
_STYLE = """
:root{color-scheme:light dark;--ink:#1c232b;--soft:#68737f;--line:#e3e7eb;--back:#fff}
@media(prefers-color-scheme:dark){:root{--ink:#e4e8ec;--soft:#98a3ae;--line:#313a43;--back:#14191e}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--back);margin:2rem auto;
max-width:960px;padding:0 1rem}
h1{font-size:1.35rem;margin:0}h2{font-size:1.05rem;margin:2.2rem 0 .3rem}
p{margin:.2rem 0;color:var(--soft)}.chart{width:100%;height:auto;display:block}
.tick{font-size:11px;fill:var(--soft)}.grid{stroke:var(--line)}
.cross{stroke:var(--ink);stroke-width:.7;stroke-dasharray:3 3}
table{border-collapse:collapse;width:100%;font-size:.88rem;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:.18rem .5rem;border-bottom:1px solid var(--line)}
th:first-child,td:first-child,td.text,th.text{text-align:left}
th{color:var(--soft);font-weight:500}td.text{overflow-wrap:anywhere}
.key{display:inline-block;width:.75em;height:.75em;border-radius:2px;margin-right:.45em}
.big{font-size:1.6rem;color:var(--ink)}.facts{display:flex;gap:2.2rem;flex-wrap:wrap;margin:1rem 0}
.bad{color:#c9372c}.legend{font-size:.85rem;color:var(--soft)}.legend>span{margin-right:1rem}
#tip{position:fixed;pointer-events:none;background:var(--back);border:1px solid var(--line);
padding:.35rem .6rem;font-size:.8rem;display:none;box-shadow:0 2px 8px #0003}
"""
_SCRIPT = """
const all=JSON.parse(document.getElementById('data').textContent);
const tip=document.getElementById('tip');
for(const chart of document.querySelectorAll('svg[data-chart]')){
 const rows=all.rows[chart.dataset.chart],cross=chart.querySelector('.cross');
 const left=+chart.dataset.left,right=+chart.dataset.right;
 chart.addEventListener('mousemove',event=>{
  const box=chart.getBoundingClientRect(),x=(event.clientX-box.left)*920/box.width;
  const part=(x-left)/(right-left);
  if(part<0||part>=1){tip.style.display='none';return}
  const n=Math.floor(part*(all.edges.length-1));
  cross.setAttribute('x1',x);cross.setAttribute('x2',x);
  tip.textContent='';tip.append((+all.edges[n]).toPrecision(4)+' s');
  for(const [name,row] of Object.entries(rows))if(row[n]){
   const line=document.createElement('div');line.textContent=name+' '+(+row[n]).toPrecision(3);
   tip.append(line)}
  tip.style.display='block';tip.style.left=Math.min(event.clientX+14,innerWidth-190)+'px';
  tip.style.top=(event.clientY+14)+'px'});
 chart.addEventListener('mouseleave',()=>{tip.style.display='none';
  cross.setAttribute('x1',-9);cross.setAttribute('x2',-9)});
}
"""


def page(view: View) -> str:
    """The page."""
    uid = escape(view.story.uid)
    rows = {"uses": view.uses, "concurrency": view.concurrency, "rates": view.rates}
    short = {
        kind: {name: [round(value, 4) for value in row] for name, row in each.items()}
        for kind, each in rows.items()
    }
    data = {"edges": [round(edge, 4) for edge in view.edges], "rows": short}
    body = "".join(
        (
            _head(view),
            "<h2>What the cores did</h2>",
            svg.stacked(view.edges, view.uses, COLOURS, "cores", "uses"),
            _uses(view),
            _calls(view),
            "<h2>How many tasks at a time</h2>",
            svg.lines(view.edges, view.concurrency, LINES, "tasks", "concurrency"),
            _legend(list(view.concurrency)),
            "<h2>How many tasks a second</h2>",
            svg.lines(view.edges, view.rates, LINES, "per second", "rates"),
            _legend(list(view.rates)),
            "<h2>How long tasks were in each state</h2>",
            _durations(view),
            _failed(view),
        )
    )
    # No "</script>" in the data: "<" is written as an escape of JSON.
    plain = json.encode(data).decode().replace("<", "\\u003c")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{uid}</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<style>{_STYLE}</style><body>{body}<div id=tip></div>"
        f'<script type="application/json" id="data">{plain}</script>'
        f"<script>{_SCRIPT}</script></body></html>\n"
    )


def _head(view: View) -> str:
    counts = ", ".join(f"{count} {state}" for state, count in sorted(view.counts.items()))
    wrong = "".join(f'<p class="bad">{escape(text)}</p>' for text in view.wrong)
    facts = (
        (f"{view.share:.1%}", "of the core-seconds in programs"),
        (svg.number(view.provided), "core-seconds provided"),
        (str(view.cores), f"cores in {len(view.usages)} pilot{'s' * (len(view.usages) != 1)}"),
        (f"{view.edges[-1]:.4g} s", "from the first record to the last"),
    )
    shown = "".join(f'<div><div class="big">{a}</div><p>{b}</p></div>' for a, b in facts)
    uid = escape(view.story.uid)
    return f'<h1>{uid}</h1><p>{counts or "no tasks"}</p>{wrong}<div class="facts">{shown}</div>'


def _key(colour: str) -> str:
    return f'<span class="key" style="background:{colour}"></span>'


def _legend(names: list[str]) -> str:
    return "<p class=legend>" + "".join(f"<span>{_key(LINES[n])}{n}</span>" for n in names) + "</p>"


def _uses(view: View) -> str:
    rows = "".join(
        f'<tr><td>{_key(COLOURS[use])}{use}</td><td class="text">{WORDS[use]}</td>'
        f"<td>{svg.number(core_s)}</td><td>{core_s / view.provided:.2%}</td></tr>"
        for use, core_s in view.totals.items()
        if core_s > 0
    )
    total = f"<tr><td>together</td><td></td><td>{svg.number(view.provided)}</td><td></td></tr>"
    head = '<tr><th>use</th><th class="text"></th><th>core-seconds</th><th>of all</th></tr>'
    return f"<table>{head}{rows}{total}</table>"


def _calls(view: View) -> str:
    calls = view.story.calls
    if not calls:
        return ""
    return (
        f"<p>{len(calls)} calls of executors: their workers were in them for"
        f" {svg.number(view.in_calls)} core-seconds of exec_cmd</p>"
    )


def _durations(view: View) -> str:
    names = ("least", "25 %", "median", "75 %", "95 %", "most")
    assert len(names) == len(QUANTILES)
    head = "<tr><th>state</th><th>tasks</th>" + "".join(f"<th>{n}</th>" for n in names) + "</tr>"
    rows = "".join(
        f"<tr><td>{one.state}</td><td>{one.count}</td>"
        + "".join(f"<td>{svg.seconds(value)}</td>" for value in one.quantiles)
        + "</tr>"
        for one in view.durations
    )
    return f"<table>{head}{rows}</table>"


def _failed(view: View) -> str:
    failed = view.failed()
    if not failed:
        return ""
    rows = "".join(
        f'<tr><td>{escape(uid)}</td><td class="text">{escape(reason)}</td>'
        f'<td class="text">{escape(last)}</td></tr>'
        for uid, reason, last in failed[:_FAILED_MAX]
    )
    more = len(failed) - _FAILED_MAX
    rest = f"<p>and {more} more: yod-pilot list --failed</p>" if more > 0 else ""
    head = '<tr><th>task</th><th class="text">why</th><th class="text">its last words</th></tr>'
    return f"<h2>Tasks that failed</h2><table>{head}{rows}</table>{rest}"
