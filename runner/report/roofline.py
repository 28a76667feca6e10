"""Where the variants of a command stand under the roofs of their device, as numbers: a roofline before it is drawn.

A roof is what a result's own percentage is a percentage of (``gbps`` over ``pct_peak_bandwidth``), so that plot and
table never disagree. The same work has one intensity for each level of memory whose bytes are known: those that the
plan declares and, where ``profiler=ncu`` counted them, those of the DRAM and of the L2. The plot is that of S. Williams
et al., "Roofline", CACM 52(4), 2009; with several levels that of C. Yang et al., "Hierarchical Roofline analysis for
GPUs", CCPE 32(20), 2020.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from runner.report.axes import MISSING, columns, value
from runner.report.numbers import full_rate
from runner.result.model import Result, Status
from runner.result.names import plain

Source = Literal["datasheet", "measured"]
Kind = Literal["memory", "compute"]
Level = Literal["declared", "dram", "l2"]
SOURCES: tuple[Source, ...] = ("datasheet", "measured")
_COUNTED: tuple[tuple[Level, str], ...] = (("dram", "counted_dram_bytes"), ("l2", "counted_l2_bytes"))
"""Level → metric of the profile that holds its bytes per step."""
_SAME = 1e-3
"""Two rates that differ by less than this share of them are one figure, worked out in two ways."""


@dataclass(frozen=True)
class Roofs:
    """What bounds one point, by one source; a rate that is not known is 0."""

    gbps: float = 0.0
    tflops: float = 0.0
    memory: str = ""
    """What kind of access was measured: ``copy``, ``read`` …; empty for the datasheet."""
    compute: str = ""
    """Arithmetic type that ``tflops`` holds for."""

    @property
    def ridge(self) -> float | None:
        """Intensity above which arithmetic bounds, FLOP per byte; None where a roof is unknown."""
        return 1e3 * self.tflops / self.gbps if self.gbps and self.tflops else None

    def at(self, intensity: float) -> float | None:
        """TFLOP/s that the roofs leave at this intensity; None where neither is known."""
        known = [rate for rate in (intensity * self.gbps * 1e-3, self.tflops) if rate]
        return min(known, default=None)


@dataclass(frozen=True)
class Point:
    """One variant of one experiment at the intensity of one level of memory."""

    experiment: str
    kernel: str
    variant: str
    params: Mapping[str, str]
    """Parameters and groups that vary among the results of the kernel."""
    level: Level
    intensity: float
    """Declared FLOPs per byte of the level."""
    tflops: float
    gbps: float
    """Bytes of the level over the time."""
    time_us: float
    datasheet: Roofs
    measured: Roofs

    @property
    def series(self) -> tuple[str, str]:
        """What shares colour and marker."""
        return self.kernel, self.variant

    def under(self, source: Source) -> Roofs:
        return self.datasheet if source == "datasheet" else self.measured


@dataclass(frozen=True)
class Roof:
    """One line of the plot."""

    source: Source
    kind: Kind
    name: str
    """Of memory the kind of access, of compute the arithmetic type; empty where there is nothing to tell apart."""
    rate: float
    """GB/s of memory, TFLOP/s of compute."""
    ridge: float = 0.0
    """Of compute: where it meets the highest memory roof of its source, FLOP per byte; 0 where there is none."""


def devices(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Device → the results that can be placed. The option of ``gpu`` names it, of which each has one backend, so that a
    host never shares with a GPU."""
    found: dict[str, list[Result]] = {}
    for result in results:
        if result.status is Status.PASSED and all(
            result.metrics.get(name, 0.0) > 0 for name in ("time_us", "tflops", "intensity")
        ):
            found.setdefault(result.gpu or result.backend, []).append(result)
    return found


def points(results: Sequence[Result], swept: Sequence[str] = ()) -> list[Point]:
    """The points of one device's results: for each the declared one, then those of the counted levels."""
    kernels: dict[str, list[Result]] = {}
    for result in results:
        kernels.setdefault(result.kernel, []).append(result)
    varying = {kernel: columns(members, swept) for kernel, members in kernels.items()}
    return [point for result in results for point in _of(result, varying[result.kernel])]


def roofs(placed: Sequence[Point]) -> list[Roof]:
    """The roofs that these points stand under, datasheet first, then by kind and from the highest down. Where devices
    of one name were measured differently, the highest is drawn."""
    highest: dict[tuple[Source, Kind, str], float] = {}
    for source in SOURCES:
        for own in dict.fromkeys(point.under(source) for point in placed):
            lines: tuple[tuple[Kind, str, float], ...] = (
                ("memory", own.memory, own.gbps),
                ("compute", own.compute, own.tflops),
            )
            for kind, name, rate in lines:
                if rate:
                    highest[source, kind, name] = max(rate, highest.get((source, kind, name), 0.0))
    found: list[Roof] = []
    for source in SOURCES:
        own_roofs = sorted(
            (Roof(*key, rate) for key, rate in highest.items() if key[0] == source),
            key=lambda roof: (roof.kind != "memory", -roof.rate, roof.name),
        )
        bandwidth = max((roof.rate for roof in own_roofs if roof.kind == "memory"), default=0.0)
        found += [
            replace(roof, ridge=1e3 * roof.rate / bandwidth) if roof.kind == "compute" and bandwidth else roof
            for roof in own_roofs
        ]
    return found


def table(placed: Sequence[Point]) -> list[dict[str, str | float]]:
    """One row a point, as the CSV has it; what is not known is empty. ``…_roof_tflops`` is the roof above the point,
    ``pct_…_roof`` what it reaches of that."""
    names = dict.fromkeys(name for point in placed for name in point.params)
    rows: list[dict[str, str | float]] = []
    for point in placed:
        row: dict[str, str | float] = {
            "experiment": point.experiment,
            "kernel": point.kernel,
            "variant": point.variant,
            **{name: point.params.get(name, "") for name in names},
            "level": point.level,
            "arithmetic": point.datasheet.compute,
            "time_us": point.time_us,
            "intensity": point.intensity,
            "tflops": point.tflops,
            "gbps": point.gbps,
        }
        for source, prefix in zip(SOURCES, ("peak", "ceiling"), strict=True):
            own = point.under(source)
            top = own.at(point.intensity)
            if source == "measured":
                row["ceiling_kind"] = own.memory
            row |= {
                f"{prefix}_gbps": own.gbps or "",
                f"{prefix}_tflops": own.tflops or "",
                f"{prefix}_ridge": own.ridge or "",
                f"{prefix}_roof_tflops": top or "",
                f"pct_{prefix}_bandwidth": 100 * point.gbps / own.gbps if own.gbps else "",
                f"pct_{prefix}_flops": 100 * point.tflops / own.tflops if own.tflops else "",
                f"pct_{prefix}_roof": 100 * point.tflops / top if top else "",
            }
        rows.append(row)
    return rows


def csv_text(placed: Sequence[Point]) -> str:
    """``table`` as CSV."""
    rows = table(placed)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def thinned(placed: Sequence[Point], most: int) -> list[Point]:
    """At most about ``most`` results' points: of each series its share, evenly spaced and with both ends."""
    series: dict[tuple[str, str], dict[tuple[str, str], list[Point]]] = {}
    for point in placed:
        of = series.setdefault(point.series, {})
        of.setdefault((point.experiment, point.variant), []).append(point)
    total = sum(len(members) for members in series.values())
    if total <= most:
        return list(placed)
    kept: list[Point] = []
    for members in series.values():
        groups = list(members.values())
        share = max(1, len(groups) * most // total)
        last = len(groups) - 1
        places = {round(index * last / max(1, share - 1)) for index in range(share)}
        kept += [point for place in sorted(places) for point in groups[place]]
    return kept


def _of(result: Result, varying: Sequence[str]) -> list[Point]:
    found = result.metrics
    datasheet = Roofs(
        gbps=full_rate(found, "gbps", "pct_peak_bandwidth"),
        tflops=full_rate(found, "tflops", "pct_peak_flops"),
        compute=result.compute,
    )
    measured = Roofs(
        gbps=full_rate(found, "gbps", "pct_ceiling_bandwidth"),
        tflops=full_rate(found, "tflops", "pct_ceiling_flops"),
        compute=result.compute,
    )
    measured = replace(measured, memory=_access(result, measured.gbps))
    named = {key: plain(value(result, key)) for key in varying if value(result, key) is not MISSING}
    declared = Point(
        experiment=result.experiment_id,
        kernel=result.kernel,
        variant=result.variant,
        params=named,
        level="declared",
        intensity=found["intensity"],
        tflops=found["tflops"],
        gbps=1e3 * found["tflops"] / found["intensity"],
        time_us=found["time_us"],
        datasheet=datasheet,
        measured=measured,
    )
    return [declared, *(point for level, name in _COUNTED for point in _counted(declared, result, level, name))]


def _counted(declared: Point, result: Result, level: Level, metric: str) -> list[Point]:
    """The point at the bytes that were counted at a level; none where they were not, or there were none."""
    moved = result.profile.metrics.get(metric, 0.0)
    if moved <= 0:
        return []
    gbps = moved / declared.time_us * 1e-3
    at = replace(declared, level=level, gbps=gbps, intensity=1e3 * declared.tflops / gbps)
    if level == "dram":
        return [at]
    # The memory roofs are those of the DRAM: of the L2's bandwidth nothing is known.
    beyond = {source: replace(declared.under(source), gbps=0.0, memory="") for source in SOURCES}
    return [replace(at, datasheet=beyond["datasheet"], measured=beyond["measured"])]


def access_of(result: Result) -> str:
    """Which bandwidth its ``pct_ceiling_bandwidth`` is of: ``copy``, ``read``, ``write``, or empty: unknown."""
    return _access(result, full_rate(result.metrics, "gbps", "pct_ceiling_bandwidth"))


def _access(result: Result, gbps: float) -> str:
    """Which measured ceiling ``gbps`` is, by the figures beside the result; empty when none of them."""
    known = result.environment.get("ceilings") or {}
    for name, rate in known.items():
        if name.endswith("_gbps") and rate and abs(rate - gbps) <= _SAME * rate:
            return str(name.removesuffix("_gbps"))
    return ""
