"""What the tests of the configuration readers share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from measurements.config import read_config
from measurements.records import ConfigReading, ReadError, Setting

NAMES: Mapping[str, str] = {
    "MAX_NUM_SEQS": "max_num_seqs", "MAX_SEQS": "max_num_seqs", "MAX_MODEL_LEN": "max_model_len",
    "VRAM_KV_MIB": "vram_kv_mib", "VRAM_WEIGHTS_MIB": "vram_weights_mib", "HOST_POOL_MIB": "host_pool_mib",
    "KV_CACHE_DTYPE": "kv_cache_dtype", "KV_DTYPE": "kv_cache_dtype", "TP": "tp", "TP_WIRE": "tp_wire",
    "CTX": "ctx", "KV_SLOTS": "kv_slots", "MAX_TOK": "max_tok", "KV_POOL_POSITIONS": "kv_pool_positions",
    "HOST_RESERVE_GIB": "host_reserve_gib", "MODEL": "model"}
SPELLING: Mapping[str, str] = {
    "max_num_seqs": "MAX_SEQS", "max_model_len": "MAX_MODEL_LEN", "vram_kv_mib": "VRAM_KV_MIB",
    "vram_weights_mib": "VRAM_WEIGHTS_MIB", "host_pool_mib": "HOST_POOL_MIB", "kv_cache_dtype": "KV_DTYPE",
    "tp": "TP", "tp_wire": "TP_WIRE", "ctx": "CTX", "kv_slots": "KV_SLOTS", "max_tok": "MAX_TOK",
    "kv_pool_positions": "KV_POOL_POSITIONS", "host_reserve_gib": "HOST_RESERVE_GIB"}


def read(folder: Path, text: str | bytes, name: str = "settings", **others: str) -> ConfigReading:
    """The reading of ``text`` as a file of ``name``; ``others`` lie beside it (``a_env`` is ``a.env``)."""
    for other, content in others.items():
        (folder / other.replace("_", ".")).write_text(content, newline="")
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_config([path])


def attempt(folder: Path, content: bytes, name: str) -> ConfigReading | ReadError:
    """The reading of ``content``, or the error it gives."""
    try:
        return read(folder, content, name)
    except ReadError as error:
        return error


def written(reading: ConfigReading, setting: Setting) -> str | None:
    """The characters of the file that hold a setting's value."""
    if setting.span is None:
        return None
    return reading.text[setting.place.file][slice(*setting.span)]


def values(reading: ConfigReading, scope: str | None = None) -> dict[str, str | None]:
    """Keys and values; the last of several counts."""
    return {setting.key: setting.value for setting in reading.settings if scope in (None, setting.scope)}


def check_spans(reading: ConfigReading) -> None:
    """Every span is exact and stands on its setting's line or below it."""
    for setting in reading.settings:
        if setting.span is not None:
            text = reading.text[setting.place.file]
            assert text[slice(*setting.span)] == setting.value
            assert setting.place.line is not None
            assert text.count("\n", 0, setting.span[0]) + 1 >= setting.place.line


def one(reading: ConfigReading, key: str) -> Setting:
    """The only setting of ``key``."""
    (setting,) = (setting for setting in reading.settings if setting.key == key)
    return setting
