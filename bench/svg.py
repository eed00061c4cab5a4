# SPDX-License-Identifier: Apache-2.0
"""What the plots of the suites have in common: rows of a JSON file in, an SVG of panels out."""

import json


def values_of(path):
    """{name: value} of the rows that bench/run.sh wrote."""
    with open(path, encoding="utf-8") as file:
        return {row["name"]: row["value"] for row in json.load(file)["rows"]}


def text(x, y, words, anchor="middle", size=12, colour="#333", turn=0):
    turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
            f'fill="{colour}"{turned}>{words}</text>')


def line(x1, y1, x2, y2, colour, width=1, dash=""):
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
            f'stroke-width="{width}" stroke-dasharray="{dash}"/>')


class Panel:
    """Curves over two linear axes, in a frame."""

    def __init__(self, left, top, width, height, x_range, y_range):
        self.left, self.top, self.width, self.height = left, top, width, height
        self.x_range, self.y_range = x_range, y_range
        self.parts = [f'<rect x="{left:.1f}" y="{top}" width="{width}" height="{height}" '
                      'fill="none" stroke="#999"/>']

    def x(self, value):
        low, high = self.x_range
        return self.left + self.width * (value - low) / (high - low)

    def y(self, value):
        low, high = self.y_range
        return self.top + self.height * (high - value) / (high - low)

    def titles(self, above, below, beside=""):
        middle = self.left + self.width / 2
        self.parts += [text(middle, self.top - 12, above, size=14),
                       text(middle, self.top + self.height + 38, below)]
        if beside:
            self.parts.append(text(self.left - 44, self.top + self.height / 2, beside, turn=-90))

    def ticks(self, x_values, y_values, x_format="{:g}", y_format="{:g}"):
        for value in x_values:
            self.parts.append(text(self.x(value), self.top + self.height + 18, x_format.format(value)))
        for value in y_values:
            self.parts.append(line(self.left, self.y(value), self.left + self.width, self.y(value), "#ddd"))
            self.parts.append(text(self.left - 8, self.y(value) + 4, y_format.format(value), "end"))

    def curve(self, points, colour, dash=""):
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" '
                          f'stroke-dasharray="{dash}"/>')
        self.parts += [f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="3.5" fill="{colour}"/>'
                       for x, y in points]

    def legend(self, entries, right, bottom):
        """entries: (label, colour, dash), one below the other, the last at `bottom`."""
        for i, (label, colour, dash) in enumerate(entries):
            row = bottom - 16 * (len(entries) - 1 - i)
            self.parts.append(line(right - 104, row - 4, right - 82, row - 4, colour, 2, dash))
            self.parts.append(text(right - 76, row, label, "start"))


def write(path, width, height, parts):
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                   'font-family="sans-serif">\n'
                   f'<rect width="{width}" height="{height}" fill="white"/>\n' +
                   "\n".join(parts) + "\n</svg>\n")
