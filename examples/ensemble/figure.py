"""Draws the statistics of the study as SVG, with nothing but the standard library and numpy."""

import base64
import struct
import zlib

import numpy as np

_COLOURS = np.array([[24, 15, 62], [113, 31, 129], [204, 71, 90], [251, 155, 6], [252, 255, 164]])
SIDE, GAP, TOP = 220, 30, 40


def png(values: np.ndarray) -> bytes:
    """A picture of a field, dark where it is cold."""
    span = np.ptp(values) or 1.0
    at = (values - values.min()) / span * (len(_COLOURS) - 1)
    places = np.arange(len(_COLOURS))
    pixels = np.stack([np.interp(at, places, _COLOURS[:, c]) for c in range(3)], -1).astype(
        np.uint8
    )
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    height, width = values.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def write(path: str, points: int, last, means: list[float]) -> None:
    """Mean, standard deviation and quantiles at the end, and the mean over time."""
    panels = {
        "mean": last.mean,
        "standard deviation": np.sqrt(last.variance),
        "5 % quantile": last.quantile(0.05),
        "95 % quantile": last.quantile(0.95),
    }
    width = len(panels) * (SIDE + GAP) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{TOP + SIDE + 190}"'
        ' font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, (name, values) in enumerate(panels.items()):
        x = GAP + number * (SIDE + GAP)
        data = base64.b64encode(png(values.reshape(points, points))).decode()
        parts += [
            f'<text x="{x}" y="{TOP - 12}">{name}: {values.min():.1f} to {values.max():.1f}</text>',
            f'<image x="{x}" y="{TOP}" width="{SIDE}" height="{SIDE}" image-rendering="pixelated"'
            f' href="data:image/png;base64,{data}"/>',
        ]
    low, span = min(means), (max(means) - min(means)) or 1.0
    bottom, right = TOP + SIDE + 160, width - 2 * GAP
    line = " ".join(
        f"{GAP + i / max(1, len(means) - 1) * right:.1f},{bottom - (m - low) / span * 100:.1f}"
        for i, m in enumerate(means)
    )
    parts += [
        f'<text x="{GAP}" y="{bottom - 115}">mean temperature over {len(means)} steps of'
        f" {last.count} simulations: {means[0]:.2f} to {means[-1]:.2f}</text>",
        f'<polyline points="{line}" fill="none" stroke="#4a7fb5" stroke-width="2"/>',
        "</svg>",
    ]
    with open(path, "w") as file:
        file.write("\n".join(parts))
