"""A terminal's screen as SVG: `tmux capture-pane -e -p | python3 scripts/terminal_svg.py light|dark TITLE`.

Blocks and lines are drawn and not written, so that no font can tear them apart.
"""

import re
import sys
from html import escape

LOOKS = {
    "light": {
        "ground": "#ffffff", "ink": "#1f2328", "edge": "#d0d7de",
        "colours": ["#1f2328", "#c0362c", "#2f7d4f", "#8a6100", "#2f5fd0", "#9a3fa6", "#16737d", "#59636e"],
    },
    "dark": {
        "ground": "#13151a", "ink": "#e6e8eb", "edge": "#343942",
        "colours": ["#e6e8eb", "#ff7d71", "#62cf9b", "#f2b34c", "#8fb0ff", "#d58be0", "#5cc8d0", "#9aa1ab"],
    },
}  # fmt: skip
WIDE, HIGH, MARGIN = 8.4, 19, 12
BLOCKS = "▁▂▃▄▅▆▇█"


def styled(line, before):
    """The characters of a line, each with its colour (0 to 7, or None) and 1 for bold, 2 for dim, 7 for reversed.

    What holds at the end of a line holds in the next one; `before` is changed to that.
    """
    colour, flags = before[0], set(before[1])
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if not part.startswith("\x1b["):
            for c in part:
                yield c, (colour, frozenset(flags))
            continue
        codes = [int(code or 0) for code in part[2:-1].split(";")]
        while codes:
            code = codes.pop(0)
            if code == 0:
                colour, flags = None, set()
            elif code in (1, 2, 7):
                flags.add(code)
            elif code == 22:
                flags -= {1, 2}
            elif code == 27:
                flags.discard(7)
            elif 30 <= code <= 37 or 90 <= code <= 97:
                colour = code % 10
            elif code == 39:
                colour = None
            elif code == 38 and codes[:1] == [5]:
                colour, codes = codes[1] % 8, codes[2:]
    before[:] = [colour, frozenset(flags)]


def drawn(lines, look, title):
    before = [None, frozenset()]
    lines = [list(styled(line, before)) for line in lines]
    width = max(map(len, lines)) * WIDE + 2 * MARGIN
    height = len(lines) * HIGH + 2 * MARGIN
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" width="{width:g}" height="{height}" role="img">'
        f"<title>{escape(title)}</title>"
        f'<rect x=".5" y=".5" width="{width - 1:g}" height="{height - 1}" rx="8" fill="{look["ground"]}" stroke="{look["edge"]}"/>'
        '<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,Liberation Mono,monospace" font-size="14">'
    )
    for row, cells in enumerate(lines):
        at, top = 0, MARGIN + row * HIGH
        while at < len(cells):
            first, style = cells[at]
            kind = first if first in BLOCKS or first == "─" else ""
            end = at + 1
            while end < len(cells) and cells[end][1] == style:
                other = cells[end][0]
                if (other if other in BLOCKS or other == "─" else "") != kind:
                    break
                end += 1
            text = "".join(c for c, _ in cells[at:end])
            colour, flags = style
            ink = look["ink"] if colour is None else look["colours"][colour]
            ground = look["ground"]
            left, run = MARGIN + at * WIDE, (end - at) * WIDE
            if 7 in flags:
                ink, ground = ground, ink
                yield f'<rect x="{left:g}" y="{top}" width="{run:g}" height="{HIGH}" fill="{ground}"/>'
            if kind == "─":
                yield f'<rect x="{left:g}" y="{top + HIGH // 2}" width="{run:g}" height="1" fill="{ink}"/>'
            elif kind:
                tall = HIGH * (BLOCKS.index(kind) + 1) / 8
                yield f'<rect x="{left:g}" y="{top + HIGH - tall:g}" width="{run:g}" height="{tall:g}" fill="{ink}"/>'
            else:
                # A word is as long as its cells, whatever the font.
                for word in re.finditer(r"\S+(?: \S+)*", text):
                    long = len(word.group()) * WIDE
                    more = ' font-weight="700"' if 1 in flags else ""
                    more += ' opacity=".6"' if 2 in flags else ""
                    yield (
                        f'<text x="{left + word.start() * WIDE:g}" y="{top + 14}" fill="{ink}" textLength="{long:g}"'
                        f' lengthAdjust="spacingAndGlyphs"{more}>{escape(word.group())}</text>'
                    )
            at = end
    yield "</g></svg>"


if __name__ == "__main__":
    screen = sys.stdin.read().rstrip("\n").split("\n")
    print("\n".join(drawn(screen, LOOKS[sys.argv[1]], sys.argv[2])))
