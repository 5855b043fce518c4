"""The pictures of a session by matplotlib, for papers: one file with four panels."""

from __future__ import annotations

import os
from typing import Any

from native.errors import YodError
from yod.pilot.analysis.curves import QUANTILES
from yod.pilot.plot.view import COLOURS, LINES, View

KINDS = (".png", ".svg", ".pdf", ".eps")
_SIZE_INCH = (11.0, 8.5)
_DOTS = 150


def draw(view: View, path: str) -> None:
    """Write the figure; the end of the path's name says in which format.

    Raises:
        YodError: matplotlib is not there, or the file cannot be written.
    """
    kind = os.path.splitext(path)[1].lower()
    if kind not in KINDS:
        raise YodError(f"{path}: the end of its name is none of {', '.join(KINDS)}")
    try:
        import matplotlib
    except ImportError:
        raise YodError(
            "matplotlib is not installed: pip install 'yod[plot]', or use --web for a page"
        ) from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, ((uses, tasks), (rates, durations)) = pyplot.subplots(
        2, 2, figsize=_SIZE_INCH, constrained_layout=True
    )
    _uses(uses, view)
    _lines(tasks, view, view.concurrency, "tasks")
    _lines(rates, view, view.rates, "tasks a second")
    _durations(durations, view)
    figure.suptitle(f"{view.story.uid}: {view.share:.1%} of {view.provided:.4g} core-seconds")
    try:
        figure.savefig(path, dpi=_DOTS)
    except OSError as error:
        raise YodError(f"{path}: {error.strerror}") from None
    finally:
        pyplot.close(figure)


def _uses(axes: Any, view: View) -> None:
    names = list(view.uses)
    axes.stackplot(
        view.edges[:-1],
        *view.uses.values(),
        step="post",
        labels=names,
        colors=[COLOURS[name] for name in names],
    )
    axes.set(xlabel="seconds", ylabel="cores", title="utilisation", xlim=(0, view.edges[-1]))
    if names:
        axes.legend(fontsize="x-small", loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _lines(axes: Any, view: View, rows: dict[str, list[float]], label: str) -> None:
    for name, row in rows.items():
        axes.step(view.edges[:-1], row, where="post", label=name, color=LINES[name])
    axes.set(xlabel="seconds", ylabel=label, xlim=(0, view.edges[-1]), ylim=(0, None))
    axes.legend(fontsize="x-small")


def _durations(axes: Any, view: View) -> None:
    at = {quantile: n for n, quantile in enumerate(QUANTILES)}
    shown = [
        {
            "label": one.state,
            "whislo": one.quantiles[at[0.0]],
            "q1": one.quantiles[at[0.25]],
            "med": one.quantiles[at[0.5]],
            "q3": one.quantiles[at[0.75]],
            "whishi": one.quantiles[at[1.0]],
        }
        for one in reversed(view.durations)
    ]
    if shown:
        axes.bxp(shown, orientation="horizontal", showfliers=False)
    axes.set(xlabel="seconds", title="time in each state")
    axes.set_xscale("symlog", linthresh=1e-4)
    axes.tick_params(axis="y", labelsize="x-small")
