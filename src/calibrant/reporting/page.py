"""A report as one self-contained HTML file: no scripts, fonts or links to other files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from calibrant.notebook import escape
from calibrant.reporting.blocks import Block, Bullets, Cell, Headline, Mark, Picture, Section, Table
from calibrant.visible import visible

COLORS = {"good": "#2E9E6B", "warn": "#E6B800", "bad": "#D32F2F", "none": "#767676"}
"""Green, yellow and red that differ in lightness; shape and the word next to them say the same without color."""

CSS = """
:root{color-scheme:light}
*{box-sizing:border-box}
body{margin:0 auto;max-width:68rem;padding:1.2rem 1rem 3rem;background:#fff;color:#1a1a1a;
font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
h1{font-size:1.6rem;line-height:1.25;margin:0 0 .2rem}
h2{font-size:1.2rem;line-height:1.3;margin:2.2rem 0 .6rem;padding-top:.6rem;border-top:1px solid #d0d0d0}
main>section:first-child>h2{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);margin:0}
p,li{max-width:46rem}
h1,h2,p,li,th,td,figcaption{overflow-wrap:anywhere}
ul{padding-left:1.2rem;margin:.6rem 0}
li{margin:.25rem 0}
li.under{list-style:circle;margin-left:1.2rem}
.sub{color:#555;margin:0 0 1rem}
nav{font-size:.875rem;color:#555;margin:1.5rem 0 0;clear:both}
nav ul{list-style:none;padding:0;margin:0;display:flex;flex-wrap:wrap;gap:.15rem .9rem}
nav li{margin:0}
a{color:#0072B2}
.headline{border-left:.4rem solid;padding:.5rem .9rem;font-size:1.15rem;font-weight:600;background:#f6f6f6}
.headline span{text-decoration:underline;text-underline-offset:.2em}
.scroll{overflow-x:auto;margin:.9rem 0 .3rem;background:linear-gradient(90deg,#fff 40%,#fff0) 0/2.5rem 100% local,
linear-gradient(270deg,#fff 40%,#fff0) 100%/2.5rem 100% local,linear-gradient(90deg,#0003,#0000) 0/.8rem 100%,
linear-gradient(270deg,#0003,#0000) 100%/.8rem 100%;background-repeat:no-repeat}
table{border-collapse:collapse;font-size:.875rem;line-height:1.35;font-variant-numeric:tabular-nums}
caption{text-align:left;font-weight:600;padding:0 0 .4rem}
th,td{padding:.28rem .4rem;text-align:right;vertical-align:top;border-bottom:1px solid #e4e4e4;
overflow-wrap:normal;white-space:nowrap}
thead th{border-bottom:2px solid #888;vertical-align:bottom;font-weight:600;max-width:8rem}
th:first-child{text-align:left;padding-left:0}
tbody th{font-weight:400}
tbody th.wrap{min-width:8rem;max-width:20rem;overflow-wrap:anywhere}
td.t,th.t{text-align:left}
td.t{white-space:normal;min-width:9rem}
td.s,tbody th.s{white-space:normal}
td.m{text-align:left}
thead th,tbody th.wrap{white-space:normal}
.note{font-size:.84rem;color:#444;margin:.25rem 0 0}
.mark::before{content:"";display:inline-block;width:.65em;height:.65em;border-radius:50%;background:currentColor;
margin-right:.4em}
.mark.warn::before{border-radius:0;clip-path:polygon(50% 0,100% 50%,50% 100%,0 50%)}
.mark.bad::before{border-radius:0}
.mark.none::before{background:none;border:1px solid}
.mark.up::before{clip-path:polygon(50% 0,100% 100%,0 100%)}
.mark.down::before{clip-path:polygon(0 0,100% 0,50% 100%)}
.mark{white-space:nowrap}
.mark b{font-weight:400;color:#1a1a1a}
figure{margin:.8rem 0}
figure svg{display:block;width:100%;max-width:34rem;height:auto}
figcaption{font-size:.84rem;color:#444;max-width:46rem;margin-top:.5rem}
@media (max-width:34rem){body{padding:.8rem .8rem 2rem}h1{font-size:1.35rem}
table,tbody,caption,tbody th{display:block}thead{display:none}tbody th,tbody th.wrap{grid-column:1/-1;max-width:none;
font-weight:600;border:0}tr{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:0 1.2rem;padding:.3rem 0;
border-bottom:1px solid #ccc}td,td.t{display:flex;flex-wrap:wrap;justify-content:flex-end;gap:0 .5rem;padding:0;
min-width:0;border:0;white-space:normal}td::before{content:attr(data-head);color:#555;margin-right:auto;text-align:left}td.t,td.m{grid-column:1/-1}}
@media (min-width:60rem){figure.aside{float:right;width:44%;margin:0 0 1rem 1.5rem}.headline{max-width:none}
section{clear:both}section>figure:not(.aside){display:flow-root}}
@media print{body{max-width:none;padding:0;font-size:10pt}nav{display:none}.scroll{overflow:visible}
h2,caption{break-after:avoid}thead,tr,figure,.headline{break-inside:avoid}thead{display:table-header-group}
main>section:nth-child(3)[aria-labelledby="about"]{break-after:page}
figure svg{max-width:10cm}.note,figcaption{font-size:8pt}table{font-size:7.5pt}th,td{padding:.15rem .3rem}
.mark::before,.headline{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
"""

LONG_NAME = 24
"""Names with more characters than this may wrap."""

Draw = Callable[[Picture], str]


def write_html(title: str, subtitle: str, sections: Iterable[Section], draw: Draw) -> str:
    """The HTML page; ``draw`` turns a picture into an ``<svg>`` element."""
    parts = list(sections)
    links = "".join(f'<li><a href="#{part.key}">{escape(part.heading)}</a></li>' for part in parts)
    first, *others = [_section(part, draw) for part in parts] or [""]
    body = "\n".join([first, f'<nav aria-label="Contents"><ul>{links}</ul></nav>', *others])
    tones = "".join(f".{tone}{{color:{color};border-color:{color}}}" for tone, color in COLORS.items())
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{CSS}{tones}\n.headline{{color:#1a1a1a}}\n</style>\n</head>\n<body>\n"
        f'<header>\n<h1>{escape(title)}</h1>\n<p class="sub">{_text(subtitle)}</p>\n</header>\n'
        f"<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _section(section: Section, draw: Draw) -> str:
    blocks = "\n".join(_block(block, draw) for block in section.blocks)
    return (
        f'<section aria-labelledby="{section.key}">\n<h2 id="{section.key}">{escape(section.heading)}</h2>\n'
        f"{blocks}\n</section>"
    )


def _block(block: Block, draw: Draw) -> str:
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Bullets):
        items = (f"<li{_class('under' if item[0] == ' ' else '')}>{_text(item)}</li>" for item in block.items)
        return f"<ul>{''.join(items)}</ul>"
    if isinstance(block, Headline):
        return f'<p class="headline {block.tone}">{_text(block.text)} <span>{_text(block.step)}</span></p>'
    if isinstance(block, Picture):
        caption = f"<figcaption>{_text(block.caption)}</figcaption>"
        return f"<figure{_class('aside' if block.aside else '')}>\n{draw(block)}\n{caption}\n</figure>"
    return f"<p>{_text(block)}</p>"


def _text(text: str) -> str:
    """Text in which a number and its percent sign stay together."""
    return escape(text).replace(" %", "&nbsp;%")


def _table(table: Table) -> str:
    kinds = [_kind(table, place) for place in range(len(table.head))]
    # Marks stand beside the name, so that a narrow screen shows both.
    order = sorted(range(len(kinds)), key=lambda place: (place > 0, kinds[place] != "m"))
    kinds, heads = [kinds[place] for place in order], [table.head[place] for place in order]
    head = "".join(
        f'<th scope="col"{_class("t" if kind in ("t", "m") else "")}>{_cell(title)}</th>'
        for title, kind in zip(heads, kinds, strict=True)
    )
    long = any(len(str(row[0])) > LONG_NAME for row in table.rows)
    first = _class("wrap" if long else kinds[0] if kinds[0] == "s" else "")
    rows = "\n".join(_row([row[place] for place in order], heads, kinds, first) for row in table.rows)
    notes = "".join(f'<p class="note">{_text(note)}</p>' for note in table.footnotes)
    caption = escape(table.caption)
    return (
        f'<div class="scroll" role="region" aria-label="{caption}" tabindex="0"><table>\n<caption>{caption}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>\n{notes}"
    )


def _row(row: Sequence[Cell], heads: Sequence[str], kinds: Sequence[str], first: str) -> str:
    """A row; its cells have the titles of their columns too, for narrow screens that stack them."""
    cells = "".join(
        f'<td{_class(kind)} data-head="{escape(title)}">{_cell(cell)}</td>'
        for cell, title, kind in zip(row[1:], heads[1:], kinds[1:], strict=True)
    )
    return f'<tr><th scope="row"{first}>{_cell(row[0])}</th>{cells}</tr>'


def _cell(cell: Cell) -> str:
    if isinstance(cell, Mark):
        return f'<span class="mark {f"{cell.tone} {cell.arrow}".strip()}"><b>{_text(cell.word)}</b></span>'
    return _text(visible(cell))


def _kind(table: Table, place: int) -> str:
    """CSS class of a column: marks "m" and text "t" align left, numbers "" and intervals "s" right; "t", "s" wrap."""
    cells = [row[place] for row in table.rows]
    if any(isinstance(cell, Mark) for cell in cells):
        return "m"
    texts = [str(cell) for cell in cells]
    words = table.words or any(len(text) > LONG_NAME for text in texts)
    if words or not any(letter.isdigit() for text in texts for letter in text):
        return "t"
    return "s" if any(" to " in text for text in texts) else ""


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
