"""Versions: the known ranges, and errors that name them."""

from __future__ import annotations

import pytest

from models.declare import BadValue
from models.engines import build, engine_names, known_versions, resolve
from models.versions import HALOGEN, RADIANCE, UnknownEngine, UnknownVersion, parse_version


@pytest.mark.parametrize("text", ["1.0.0", "1.0.13", "1.1.0", "1.2.4", "1.3.0", "1.7.9", "1.8.1", "v1.0.5", "1.3"])
def test_radiance_known(text: str) -> None:
    assert resolve(f"radiance@{text}").version == parse_version("radiance", text)


@pytest.mark.parametrize("text", ["0.3.1", "0.5.8", "0.13.0", "0.15.1", "0.17.4"])
def test_halogen_known(text: str) -> None:
    assert resolve(f"halogen@{text}").engine == "halogen"
    assert resolve(f"Halogen-Flash-Server@{text}").engine == "halogen"


@pytest.mark.parametrize("text", ["0.9.9", "1.0.14", "1.2.5", "1.8.2", "2.0.0"])
def test_radiance_unknown_names_the_known(text: str) -> None:
    with pytest.raises(UnknownVersion) as caught:
        resolve(f"radiance@{text}")
    assert text in str(caught.value)
    for known in ("1.0.0 to 1.0.13", "1.1.0 to 1.2.4", "1.3.0 to 1.8.1"):
        assert known in str(caught.value)


@pytest.mark.parametrize("text", ["0.3.0", "0.17.5", "9.9.0"])
def test_halogen_unknown_names_the_known(text: str) -> None:
    with pytest.raises(UnknownVersion, match=r"0\.3\.1 to 0\.17\.4"):
        resolve(f"halogen@{text}")


@pytest.mark.parametrize("text", ["", "one", "1", "1.2.3.4", "1.x.0", "-1.0.0"])
def test_no_version(text: str) -> None:
    with pytest.raises(UnknownVersion):
        resolve(f"radiance@{text}")


def test_an_unknown_engine_names_the_known() -> None:
    with pytest.raises(UnknownEngine) as caught:
        resolve("vllm@1.0.0")
    assert "radiance" in str(caught.value)
    assert "halogen" in str(caught.value)
    assert engine_names() == ("radiance", "halogen")
    assert known_versions() in str(caught.value)


def test_a_version_without_evidence_is_believed() -> None:
    assert RADIANCE.basis((1, 0, 13)) == "read"
    assert RADIANCE.basis((1, 0, 11)) == "believed"
    assert HALOGEN.basis((0, 7, 0)) == "believed"
    assert build(resolve("radiance@1.0.11"), container="").basis == "believed"


@pytest.mark.parametrize(("version", "tp", "known"), [
    ("1.0.13", 1, True), ("1.0.13", 2, True), ("1.0.13", 3, False), ("1.1.1", 3, True), ("1.1.0", 3, False),
    ("1.8.1", 6, False), ("1.8.1", 8, True),
])
def test_cards_a_version_takes(version: str, tp: int, known: bool) -> None:
    if known:
        assert build(resolve(f"radiance@{version}"), container="", tp=tp).name == "radiance"
    else:
        with pytest.raises(BadValue, match=f"tp is {tp}"):
            build(resolve(f"radiance@{version}"), container="", tp=tp)


def test_removed_knobs_by_generation() -> None:
    def gone(version: str) -> set[str]:
        return {item.name for item in build(resolve(f"radiance@{version}"), container="").removed}

    assert gone("1.0.13") == set()
    assert gone("1.1.0") == {"expert_vs_cache_ratio"}
    assert gone("1.2.4") == {"expert_vs_cache_ratio"}
    assert gone("1.3.0") == {"expert_vs_cache_ratio", "vram_weights_mib", "vram_kv_mib"}
    for version in ("1.0.13", "1.1.0", "1.3.0"):
        model = build(resolve(f"radiance@{version}"), container="")
        assert not gone(version) & set(model.knobs)
