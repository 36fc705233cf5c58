"""Colours as eyes see them: WCAG's contrast, a perceptual distance, and the two common kinds of colour blindness."""

from __future__ import annotations

from rich.color import Color, ColorSystem

Triple = tuple[float, float, float]

# Machado, Oliveira & Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency", IEEE TVCG 15(6),
# 2009, severity 1.0, on linear RGB: https://www.inf.ufrgs.br/~oliveira/pubs_files/CVD_Simulation/CVD_Simulation.html
BLINDNESS: dict[str, tuple[Triple, Triple, Triple]] = {
    "protanopia": (
        (0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881),
    ),
}  # fmt: skip


def linear(color: str) -> Triple:
    """#rrggbb as linear light, each part from 0 to 1."""
    red, green, blue = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return _linear(red), _linear(green), _linear(blue)


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4


def contrast(one: str, other: str) -> float:
    """By WCAG 2.2, from 1 to 21."""
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(color: str) -> float:
    """Relative luminance by WCAG 2.2."""
    red, green, blue = linear(color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def lab(light: Triple) -> Triple:
    """CIE L*a*b* (D65) of linear light."""
    red, green, blue = light
    x = (0.4124564 * red + 0.3575761 * green + 0.1804375 * blue) / 0.95047
    y = 0.2126729 * red + 0.7151522 * green + 0.0721750 * blue
    z = (0.0193339 * red + 0.1191920 * green + 0.9503041 * blue) / 1.08883
    fx, fy, fz = (t ** (1 / 3) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def apart(one: Triple, other: Triple) -> float:
    """How different two L*a*b* colours are (CIE 1976); about 2.3 can just be told apart."""
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) ** 0.5


def seen(color: str, blindness: str) -> Triple:
    """The L*a*b* colour that somebody with that blindness sees."""
    light = linear(color)
    red, green, blue = (
        min(max(sum(a * b for a, b in zip(row, light, strict=True)), 0.0), 1.0) for row in BLINDNESS[blindness]
    )
    return lab((red, green, blue))


def in_256(color: str) -> str:
    """What a terminal with 256 colours shows when Rich is asked for a colour."""
    return Color.parse(color).downgrade(ColorSystem.EIGHT_BIT).get_truecolor().hex
