#!/usr/bin/env python3
"""How the exchange's cost grows with the model and with the workers.

Runs `tributary bench exchange` over a grid of models and workers, in shared
memory and over TCP, and prints a table for RESULTS.md. The plot shows each
step's time beside the time that the same bytes take at the limit measured in
the same run: parallel lines mean that the cost grows as it should.

  tests/bench/exchange_scaling.py bazel-bin/deploy/tributary \\
      --data measured.jsonl --plot tests/bench/exchange_scaling.svg

Takes about ten minutes on a quiet machine. With a file of an earlier run in
--data and no program, only the table and the plot are made.
"""

import argparse
import json
import math
import subprocess

PARAMETERS = [1 << 20, 1 << 22, 1 << 24, 1 << 26]
WORKERS = [1, 2, 4, 8]
TRANSPORTS = ["memory", "wire"]
NAMES = {"memory": "Shared memory", "wire": "TCP"}
LIMIT_NAMES = {"memory": "sum and update alone", "wire": "bare gRPC streams"}
COLORS = ["#1b6ca8", "#2a9d5c", "#c77f0a", "#b3373f"]


def measure(program, seconds, data):
    """Writes one JSON object of `bench exchange` per line to the file."""
    with open(data, "w", encoding="utf-8") as file:
        for transport in TRANSPORTS:
            for workers in WORKERS:
                for parameters in PARAMETERS:
                    result = subprocess.run(
                        [program, "bench", "exchange", "--json",
                         "--transport", transport, "--workers", str(workers),
                         "--parameters", str(parameters),
                         "--seconds", str(seconds)],
                        check=True, capture_output=True, text=True)
                    file.write(result.stdout)
                    file.flush()


def gigabytes(row):
    """Payload of one step, both ways added."""
    return 2 * 4 * row["parameters"] * row["workers"] / 1e9


def limit(row):
    name = "memory" if row["transport"] == "memory" else "grpc"
    return row[name + "_limit_gb_per_s"]


def limit_ms(row):
    return 1e3 * gigabytes(row) / limit(row)


def table(rows):
    lines = ["| transport | workers | parameters | step, ms: median / 99 % |"
             " GB/s | CPU s/GB | limit, GB/s | share of it |",
             "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        cpu = [row["worker_cpu_s_per_gb"], row["server_cpu_s_per_gb"]]
        cpu = "" if None in cpu else f"{sum(cpu):.2f}"
        lines.append(
            f"| {NAMES[row['transport']]} | {row['workers']} |"
            f" {row['parameters'] >> 20} M |"
            f" {row['step_median_ms']:.3g} / {row['step_p99_ms']:.3g} |"
            f" {row['gb_per_s']:.2f} | {cpu} | {limit(row):.2f} |"
            f" {100 * row['gb_per_s'] / limit(row):.0f} % |")
    return "\n".join(lines)


class Panel:
    """One transport's plot, with logarithmic axes."""

    WIDTH, HEIGHT, TOP, GAP = 330, 300, 58, 78

    def __init__(self, number, rows):
        self.left = 60 + number * (self.WIDTH + self.GAP)
        self.rows = rows
        times = [r["step_median_ms"] for r in rows] + [limit_ms(r) for r in rows]
        self.low = 10 ** math.floor(math.log10(min(times)))
        self.high = 10 ** math.ceil(math.log10(max(times)))

    def x(self, parameters):
        low, high = math.log(PARAMETERS[0]), math.log(PARAMETERS[-1])
        share = (math.log(parameters) - low) / (high - low)
        return self.left + 20 + share * (self.WIDTH - 40)

    def y(self, milliseconds):
        low, high = math.log(self.low), math.log(self.high)
        share = (math.log(milliseconds) - low) / (high - low)
        return self.TOP + self.HEIGHT * (1 - share)

    def frame(self):
        right, bottom = self.left + self.WIDTH, self.TOP + self.HEIGHT
        yield (f'<text x="{self.left}" y="{self.TOP - 14}" font-weight="bold">'
               f'{NAMES[self.rows[0]["transport"]]}</text>')
        value = self.low
        while value <= self.high * 1.001:
            y = self.y(value)
            yield (f'<line x1="{self.left}" y1="{y:.1f}" x2="{right}"'
                   f' y2="{y:.1f}" stroke="#ddd"/>')
            yield (f'<text x="{self.left - 8}" y="{y + 4:.1f}"'
                   f' text-anchor="end">{value:g}</text>')
            value *= 10
        for parameters in PARAMETERS:
            x = self.x(parameters)
            yield (f'<line x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}"'
                   f' y2="{bottom + 5}" stroke="#333"/>')
            yield (f'<text x="{x:.1f}" y="{bottom + 20}"'
                   f' text-anchor="middle">{parameters >> 20} M</text>')
        yield (f'<rect x="{self.left}" y="{self.TOP}" width="{self.WIDTH}"'
               f' height="{self.HEIGHT}" fill="none" stroke="#333"/>')
        yield (f'<text x="{(self.left + right) / 2}" y="{bottom + 40}"'
               ' text-anchor="middle">parameters</text>')
        yield (f'<text x="{self.left - 44}" y="{self.TOP + self.HEIGHT / 2}"'
               f' transform="rotate(-90 {self.left - 44}'
               f' {self.TOP + self.HEIGHT / 2})" text-anchor="middle">'
               'step, ms</text>')

    def curves(self):
        for color, workers in zip(COLORS, WORKERS):
            rows = [r for r in self.rows if r["workers"] == workers]
            if not rows:
                continue
            for dash, time in (("5 4", limit_ms),
                               ("", lambda r: r["step_median_ms"])):
                points = " ".join(
                    f"{self.x(r['parameters']):.1f},{self.y(time(r)):.1f}"
                    for r in rows)
                yield (f'<polyline points="{points}" fill="none"'
                       f' stroke="{color}" stroke-width="1.6"'
                       f' stroke-dasharray="{dash}"/>')
            for r in rows:
                yield (f'<circle cx="{self.x(r["parameters"]):.1f}"'
                       f' cy="{self.y(r["step_median_ms"]):.1f}" r="3.2"'
                       f' fill="{color}"/>')

    def legend(self):
        x, y = self.left + 14, self.TOP + 20
        for color, workers in zip(COLORS, WORKERS):
            name = "worker" if workers == 1 else "workers"
            yield (f'<circle cx="{x + 10}" cy="{y - 4}" r="3.2"'
                   f' fill="{color}"/>')
            yield f'<text x="{x + 26}" y="{y}">{workers} {name}</text>'
            y += 17
        yield (f'<line x1="{x}" y1="{y - 4}" x2="{x + 20}" y2="{y - 4}"'
               ' stroke="#333" stroke-width="1.6" stroke-dasharray="5 4"/>')
        yield (f'<text x="{x + 26}" y="{y}">limit:'
               f' {LIMIT_NAMES[self.rows[0]["transport"]]}</text>')


def plot(rows):
    panels = []
    for transport in TRANSPORTS:
        chosen = [r for r in rows if r["transport"] == transport]
        if chosen:
            panels.append(Panel(len(panels), chosen))
    width = 60 + len(panels) * (Panel.WIDTH + Panel.GAP) - Panel.GAP + 20
    height = Panel.TOP + Panel.HEIGHT + 56
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}"'
             f' height="{height}" viewBox="0 0 {width} {height}"'
             ' font-family="sans-serif" font-size="13" fill="#222">',
             f'<rect width="{width}" height="{height}" fill="white"/>',
             '<text x="16" y="22" font-size="15">One exchange: median step,'
             ' and the time its bytes take at the limit</text>']
    for panel in panels:
        lines += [*panel.frame(), *panel.curves(), *panel.legend()]
    return "\n".join(lines + ["</svg>", ""])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("program", nargs="?", help="the tributary program")
    parser.add_argument("--data", required=True, help="measurements, as JSON")
    parser.add_argument("--plot", help="SVG file to write")
    parser.add_argument("--seconds", type=float, default=1.5,
                        help="of each exchange")
    arguments = parser.parse_args()
    if arguments.program:
        measure(arguments.program, arguments.seconds, arguments.data)
    with open(arguments.data, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    print(table(rows))
    if arguments.plot:
        with open(arguments.plot, "w", encoding="utf-8") as file:
            file.write(plot(rows))


if __name__ == "__main__":
    main()
