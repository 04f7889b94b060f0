"""Style sheet of the page: light or dark like the system, and usable on a phone.

In notebooks, the same rules are scoped to a class.
"""

from __future__ import annotations

import re

from barograph.report.markup import Child, Markup, element

# Line colors by Okabe and Ito, safe for color blindness; lighter in dark mode.
_LIGHT = """--ground:#fff;--panel:#f6f7f9;--ink:#1b1f24;--soft:#59636e;--rule:#d9dee4;--link:#0550ae;
--breaking:#b3261e;--costly:#9a5b00;--doubtful:#7a6a00;--note:#0b6a8f;--ok:#1a7f37;
--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#cc79a7;--c4:#8a6d00;--c5:#56b4e9;--c6:#5b4fb3;--c7:#6b7280"""
_DARK = """--ground:#0f1317;--panel:#171c22;--ink:#e6eaef;--soft:#9aa6b2;--rule:#2c343d;
--link:#79b8ff;--breaking:#ff8a80;--costly:#ffb951;--doubtful:#e5d352;--note:#6cc7ee;--ok:#5fd07f;
--c0:#58b4ea;--c1:#ff9256;--c2:#3fd0a4;--c3:#f0a6cf;--c4:#e3c552;--c5:#9ad8ff;--c6:#a9a0f5;--c7:#a3adb8"""

_PAGE = """*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;-webkit-text-size-adjust:100%}
main,body>header,body>footer{max-width:1040px;margin:0 auto;padding:0 16px}
h1{font-size:1.5rem;margin:24px 0 4px;overflow-wrap:anywhere}h2{font-size:1.2rem;margin:40px 0 8px;
border-bottom:1px solid var(--rule);padding-bottom:4px}h3{font-size:1rem;margin:24px 0 8px}
"""

_PARTS = """a{color:var(--link)}p{margin:8px 0}
.note,footer,figcaption,dt,caption{color:var(--soft)}.note,footer{font-size:.875rem}
code,.code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.9em;overflow-wrap:anywhere}
nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:4px 16px;padding:0;margin:12px 0}
.verdict{font-size:1.1rem;font-weight:600;overflow-wrap:anywhere}
.banner{border-left:4px solid var(--costly);background:var(--panel);
padding:8px 12px;margin:12px 0}
dl.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,150px),1fr));gap:8px;margin:16px 0}
dl.tiles div{background:var(--panel);border-radius:6px;padding:8px 12px}dl.tiles dt{font-size:.8rem}
dl.tiles dd{margin:0;font-weight:600;overflow-wrap:anywhere}
dl.facts{display:grid;grid-template-columns:fit-content(40%) 1fr;gap:2px 16px;font-size:.9rem}dl.facts dd{margin:0}
dl.facts dt,dl.facts dd{overflow-wrap:anywhere;min-width:0}
article{border:1px solid var(--rule);border-left:4px solid var(--soft);border-radius:6px;padding:8px 14px;margin:12px 0;
overflow-wrap:anywhere}
article h4,article h5,article h6{margin:8px 0 4px}pre{overflow-x:auto;background:var(--panel);padding:8px 12px;
border-radius:6px}blockquote{margin:8px 0;padding-left:12px;border-left:3px solid var(--rule)}
article h3{margin:4px 0}article ul{margin:4px 0;padding-left:20px}
.breaking{--sev:var(--breaking)}.costly{--sev:var(--costly)}.doubtful{--sev:var(--doubtful)}.note-level{--sev:var(--note)}
.ok{--sev:var(--ok)}.bad-level{--sev:var(--breaking)}.dull{--sev:var(--soft)}
article.breaking,article.costly,article.doubtful,article.note-level{border-left-color:var(--sev)}
.badge{color:var(--sev,var(--soft));font-weight:600;white-space:nowrap}.gone{opacity:.75}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,400px),1fr));gap:16px;align-items:start}
.charts.small{grid-template-columns:repeat(auto-fill,minmax(min(100%,300px),1fr))}
.charts.frames{grid-template-columns:repeat(auto-fill,minmax(min(45%,200px),1fr))}
figure{margin:0;min-width:0}figcaption{font-size:.875rem;margin-bottom:4px;overflow-wrap:anywhere}
svg.chart{display:block;width:100%;height:auto;max-width:640px}svg.spark{width:120px;height:26px;vertical-align:middle}
svg text{font:11px system-ui,sans-serif;fill:var(--ink)}svg .tick{fill:var(--soft)}
svg .grid{stroke:var(--rule);stroke-width:.7}svg .axis{stroke:var(--soft);stroke-width:1}
svg .line{fill:none;stroke:var(--c);stroke-width:1.6;stroke-linejoin:round}svg .dot,svg .fill,svg .point{fill:var(--c)}
svg .point{opacity:.5}svg .dashed{stroke-dasharray:5 3}svg .bad{fill:none;stroke:var(--breaking);stroke-width:1.3}
svg .mark{stroke:var(--sev,var(--soft));stroke-width:1.3;stroke-dasharray:3 3}
svg .band{fill:var(--c0);stroke:none}svg .wide{opacity:.18}svg .narrow{opacity:.32}
svg .cell{fill:var(--c0)}svg .cell.wrong{fill:var(--c1)}svg .bad-cell{fill:var(--breaking)}svg
.empty{fill:var(--panel)} svg .count.on{fill:var(--ground)}
.s0{--c:var(--c0)}.s1{--c:var(--c1)}.s2{--c:var(--c2)}.s3{--c:var(--c3)}.s4{--c:var(--c4)}.s5{--c:var(--c5)}
.s6{--c:var(--c6)}.s7{--c:var(--c7)}
ul.legend{list-style:none;display:flex;flex-wrap:wrap;gap:2px 14px;padding:0;margin:4px 0;font-size:.8rem}
ul.legend li{overflow-wrap:anywhere}ul.legend i{display:inline-block;width:16px;border-top:3px solid var(--c);
margin-right:5px;vertical-align:middle}ul.legend i.dashed{border-top-style:dashed}
.scroll{overflow-x:auto;-webkit-overflow-scrolling:touch}table{border-collapse:collapse;font-size:.85rem;width:100%;
table-layout:auto;margin:0}
caption{text-align:left;padding:4px 0}th,td{text-align:left;padding:3px 10px 3px 0;border-bottom:1px solid var(--rule);
vertical-align:top}thead th{color:var(--soft);font-weight:500;white-space:nowrap}tbody th{font-weight:400;
overflow-wrap:anywhere;min-width:80px}td.number,th.number{text-align:right;white-space:nowrap;
font-variant-numeric:tabular-nums}
table.bars{max-width:640px}table.bars td.bar{width:55%}td.bar i{display:block;height:12px;margin-top:5px;
background:var(--c0);border-radius:2px;min-width:1px}
details{margin:8px 0}summary{cursor:pointer;color:var(--link);font-size:.875rem}
"""

_ENDS = """footer{margin:48px auto 24px}
@media(max-width:480px){body{font-size:15px}dl.facts{grid-template-columns:1fr}dl.facts dt{margin-top:6px}
svg text{font-size:13px}svg .count{font-size:11px}}
@media print{details{display:block}nav{display:none}}
"""

STYLE = Markup(f":root{{{_LIGHT}}}\n@media(prefers-color-scheme:dark){{:root{{{_DARK}}}}}\n{_PAGE}{_PARTS}{_ENDS}")

NOTEBOOK_CLASS = "barograph"
"""CSS class of fragments in notebooks."""


def fragment(*children: Child) -> str:
    """Return a fragment for a notebook with its style, light or dark like the notebook."""
    return str(element("div", element("style", _NOTEBOOK_STYLE), *children, class_=NOTEBOOK_CLASS))


def below(rules: str, selector: str) -> str:
    """Return CSS rules scoped to a selector.

    Example:
        >>> below("a,p{margin:0}", ".x")
        '.x a,.x p{margin:0}'
    """
    return re.sub(r"([^{}]+)\{", lambda found: ",".join(
        f"{selector} {part.strip()}" for part in found[1].split(",")) + "{", rules)


def _notebook_style() -> Markup:
    own = f".{NOTEBOOK_CLASS}"
    is_dark = ("body[data-jp-theme-light=false]", "body.vscode-dark", "body.vscode-high-contrast",
               "html[data-theme=dark]")
    # The theme of the notebook, if known, overrides that of the system.
    silent = "body:not([data-jp-theme-light]):not(.vscode-light):not(.vscode-high-contrast-light)"
    dark = ",".join(f"{sign} {own}" for sign in is_dark)
    return Markup(
        f"{own}{{{_LIGHT};color:var(--ink);background:var(--ground);font:14px/1.5 system-ui,sans-serif;"
        f"padding:4px 8px;max-width:1040px}}\n@media(prefers-color-scheme:dark){{{silent} {own}{{{_DARK}}}}}\n"
        f"{dark}{{{_DARK}}}\n{own} *{{box-sizing:border-box}}{own} h3{{font-size:1rem;margin:8px 0 4px}}\n"
        f"{below(_PARTS, own)}"
    )


_NOTEBOOK_STYLE = _notebook_style()
