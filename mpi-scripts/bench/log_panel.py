# SPDX-License-Identifier: Apache-2.0
"""A plot's frame with two logarithmic axes, and its curves, as SVG; for simulate_report.py and plots.py.

Colors are those of the classes "grid", "frame" and of each curve, or are given; a page decides what they look like.
"""
import math


def size_text(size):
    """4 B, 64 KiB, 1 MiB"""
    for unit, shift in (("MiB", 20), ("KiB", 10)):
        if size >= 1 << shift:
            return f"{size >> shift} {unit}"
    return f"{size} B"


def time_text(seconds):
    """Three digits at most, with the unit in which the number is at least 1."""
    if seconds is None:
        return "–"
    for unit, factor in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


class LogPanel:
    """Time over a quantity, both logarithmic. `curves` are dicts from quantity to seconds."""

    def __init__(self, left, top, width, height, curves):
        self.x0, self.y0, self.width, self.height = left, top, width, height
        self.values = sorted({value for curve in curves for value in curve})
        seconds = [s for curve in curves for s in curve.values()]
        self.low, self.high = math.floor(math.log10(min(seconds))), math.ceil(math.log10(max(seconds)))

    def x(self, value):
        span = math.log(self.values[-1] / self.values[0]) or 1
        return self.x0 + self.width * math.log(value / self.values[0]) / span

    def y(self, seconds):
        return self.y0 + self.height * (self.high - math.log10(seconds)) / (self.high - self.low)

    def frame(self, title, x_title, x_text, digits=(1, 2, 5)):
        """Grid lines with their labels, at `digits` times each power of ten; `x_text` labels a value, or is empty."""
        middle, bottom = self.x0 + self.width / 2, self.y0 + self.height
        parts = [f'<text x="{middle}" y="{self.y0 - 12}" text-anchor="middle" font-weight="bold">{title}</text>']
        marks = [digit * 10.0 ** exponent for exponent in range(self.low, self.high) for digit in digits]
        for seconds in marks + [10.0 ** self.high]:
            y = self.y(seconds)
            parts.append(f'<line class="grid" x1="{self.x0}" x2="{self.x0 + self.width}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text x="{self.x0 - 6}" y="{y + 4:.1f}" text-anchor="end">{time_text(seconds)}</text>')
        for value in self.values:
            x = self.x(value)
            parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{self.y0}"/>')
            parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{x_text(value)}</text>')
        parts.append(f'<rect class="frame" x="{self.x0}" y="{self.y0}" width="{self.width}" height="{self.height}"/>')
        parts.append(f'<text x="{middle}" y="{bottom + 36}" text-anchor="middle">{x_title}</text>')
        return parts

    def curve(self, by_value, color, dashes="none", width=2):
        points = [(self.x(value), self.y(seconds)) for value, seconds in sorted(by_value.items())]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in points]
        return [f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{width}" '
                f'stroke-dasharray="{dashes}"/>'] + dots
