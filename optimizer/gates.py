"""A site's constraints as a bats file for the operator's own repository.

The file needs bash and bats alone: it reads the operator's env file line by line (it never runs it), computes each
constraint in whole numbers, and fails with the formula, both sides and the remedy. The arithmetic is the engine's own
declaration, read by :class:`optimizer.bash.Bash`; facts are constants in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from measurements.config import redact
from measurements.config.detect import dialect
from measurements.config.trace import Source
from measurements.records import ReadError
from measurements.site import Site
from models.declare import KnobSpec, Phase, Require, Verdict
from models.evaluate import Checked
from models.expr import Walk
from optimizer.bash import Bash, CannotWrite, Flag, Number, Words, unbracketed
from optimizer.check import SCHEMA_VERSION, check, engine_json

#: The first line of every such file: what begins otherwise is not ours to overwrite.
MARK: Final = "#!/usr/bin/env bats\n# Gates of "
_TEXTS: Final = ("model", "checkpoint")
_TITLE: Final = 110
_FORMULA: Final = 400


@dataclass(frozen=True, slots=True)
class Gate:
    """One test: ``body`` is the bash function behind it, ``now`` whether the settings as they are pass.

    ``require`` is None for what guards the file itself.
    """

    name: str
    formula: str
    remedy: str
    source: str
    body: tuple[str, ...]
    now: Verdict
    require: Require | None = None
    hard: bool = True


@dataclass(frozen=True, slots=True)
class NotGated:
    """A constraint without a test, and why; ``missing`` are the facts that would give it one."""

    name: str
    why: str
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gates:
    """All tests of a site, and ``text``, the file."""

    site: Site
    files: tuple[str, ...]
    gates: tuple[Gate, ...]
    not_gated: tuple[NotGated, ...]
    constants: tuple[dict[str, Any], ...]
    warnings: tuple[str, ...]
    text: str


def gates(site: Site, folder: Path) -> Gates:
    """The gates of ``site``, as a file that will lie in ``folder``.

    Raises ReadError (``usage``) where the settings do not stand in env files, and MissingFacts where not even the
    shape as it is can be judged.
    """
    env = env_files(site)
    files = tuple(_relative(file, folder) for file in env)
    return compose(site, files)


def env_files(site: Site) -> list[str]:
    """The env files that the site's knobs stand in. Raises ReadError (``usage``) where one stands elsewhere."""
    if site.config is None or not site.mapped.knobs:
        raise ReadError("gates read an env file: name it with --config FILE", kind="usage")
    found: dict[str, None] = {}
    for setting in site.mapped.knobs.values():
        file = setting.place.file
        if setting.style != "env" or dialect(Source(file, site.config.text.get(file, ""))) != "env":
            raise ReadError(f"{setting.key} does not stand in an env file, and gates read nothing else without running "
                            "it: put the settings into a file of KEY=VALUE lines that this one takes them from",
                            file=file, line=setting.place.line, kind="usage")
        found[file] = None
    order = list(site.config.text)
    return sorted(found, key=order.index)


def _relative(file: str, folder: Path) -> str:
    try:
        # both as they really lie: a link on the way is this machine's matter
        return os.path.relpath(Path(file).parent.resolve() / Path(file).name, folder.resolve())
    except ValueError:  # another drive
        return os.path.abspath(file)


def compose(site: Site, files: Sequence[str]) -> Gates:
    """The gates of ``site`` for env files of these names, relative to the bats file. Raises MissingFacts."""
    judged = check(site)
    held = _held(site)
    bash = Bash(site.model, site.given, held=held, defaults=_defaults(site))
    found: list[Gate] = []
    skipped: list[NotGated] = []
    for require in site.model.requires:
        if require.use in ("evidence", "search"):
            continue
        made = _gate(site, bash, require, judged.evaluation.constraint(require.name))
        (found if isinstance(made, Gate) else skipped).append(made)  # type: ignore[arg-type]
    statements, names = bash.used(line for gate in found for line in gate.body)
    knobs = {name: spec for name, spec in site.model.knobs.items()
             if name not in held and not names.isdisjoint((f"knob_{name}", f"unset_{name}"))}
    if "tp" in site.model.knobs and "tp" not in held:
        knobs["tp"] = site.model.knobs["tp"]  # the model file's layout hangs on it
    guards = _guards(site, knobs, held)
    knobs |= {name: site.model.knobs[name] for name in held}
    constants = [_constant_json(site, bash, name) for name in bash.constants if name in names]
    warnings = [text for text in judged.warnings if text.startswith("does not add up")]
    failing = [gate.name for gate in (*guards, *found) if gate.now is not Verdict.FITS]
    if failing:
        warnings.append(f"the settings as they are do not pass: {', '.join(failing)}")
    arithmetic = []
    for statement in statements:
        if statement.words:
            shown = statement.name.removeprefix("row_").removesuffix("_low").removesuffix("_high")
            arithmetic.append(f"  # {_comment(f'{_unnumbered(shown)} = {statement.words}')}")
        arithmetic.append(f"  {statement.name}=$(( {statement.text} ))")
    text = "\n".join([
        *_head(site, files, warnings), *_reader(site, files, knobs),
        *_after(bash, [name for name in knobs if name not in held], constants),
        *arithmetic, "}", "", *_JUDGE, *(line for gate in found for line in gate.body),
        *(line for gate in guards for line in gate.body), _SETUP,
        *(_test(gate) for gate in (*guards, *found)), "",
        *(f"# not gated: {_comment(f'{item.name}: {item.why}')}" for item in skipped), "",
    ])
    return Gates(site, tuple(files), (*guards, *found), tuple(skipped), tuple(constants), tuple(warnings), text)


def _held(site: Site) -> dict[str, int | None]:
    """Knobs that were set beside the files: one value each, or None for the engine's own choice."""
    return {name: site.knobs.get(name) for name in site.sources.sets if site.model.knobs[name].kind != "text"}


def _defaults(site: Site) -> dict[str, int]:
    """What knobs are where the file leaves them open and the site's log names them.

    What the file itself states is no such default: once the line is gone, the engine's own counts.
    """
    return {name: value for name, value in site.filed.items() if name not in _stated(site)}


def _stated(site: Site) -> set[str]:
    """The knobs that the files give a value, rather than leave to the engine."""
    specs = site.model.knobs
    return {name for name, setting in site.mapped.knobs.items() if name in specs and (
        specs[name].kind == "switch" or (setting.value or "").strip().lower() not in ("", specs[name].automatic))}


# one constraint


def _gate(site: Site, bash: Bash, require: Require, now: Checked) -> Gate | NotGated:
    if not now.hard and not require.gated:
        return NotGated(require.name, f"a matter of quality; --limit {require.name} gates it")
    if now.missing:
        return NotGated(require.name, _needs(site, now.missing), tuple(sorted(now.missing)))
    before = len(bash.statements)
    try:
        truth = bash.walk.condition(require.holds)
        sides = bash.number(require.need), bash.number(require.limit)
        instead = [(bash.walk.condition(when).sure, text) for when, text in require.instead]
    except CannotWrite as error:
        del bash.statements[before:]
        return NotGated(require.name, f"64-bit arithmetic cannot be trusted with it: {error}")
    if truth.sure is True:
        return NotGated(require.name, "holds whatever the settings are, as far as they are known here")
    words = Walk(Words())
    formula = f"{words.number(require.need)} <= {words.number(require.limit)}"
    body = [
        f"gate_{require.name}() {{",
        f"  formula={_quoted(_cut(formula, _FORMULA))}",
        f"  applies={_quoted(_cut(_applies(require), _FORMULA))}",
        f"  source={_quoted(_source(site, require.source))}",
        f"  remedy={_quoted(require.remedy)}",
    ]
    for place, (flag, text) in enumerate((flag, text) for flag, text in instead if flag is not False):
        body.append(f"  {'elif' if place else 'if'} (( {_text(flag)} )); then remedy={_quoted(text)}")
    body += ["  fi"] if len(body) > 5 else []
    body += [
        f"  needs={_quoted(', '.join(sorted(truth.lacks)))}",
        f"  judge {_quoted(require.unit)} {_ends(*sides)} \\",
        f"    $(( {_text(truth.sure)} )) $(( {_text(truth.never)} )) $(( {_text(truth.open)} ))",
        "}", "",
    ]
    return Gate(require.name, formula, now.remedy, require.source, tuple(body), now.verdict or Verdict.FITS, require,
                now.hard)


def _applies(require: Require) -> str:
    """Where the constraint counts, in words; empty where it always does."""
    unless = Walk(Words()).condition(require.unless)
    if unless == "never":
        return ""
    where = Words().negation(unless)
    return f"unless {unless}" if where.startswith("not ") else f"where {unbracketed(where)}"


def _needs(site: Site, missing: Iterable[str]) -> str:
    told = [f"{name} ({site.model.facts[name].how})" if name in site.model.facts else name for name in sorted(missing)]
    return f"needs {', '.join(told)}"


def _ends(need: Number, limit: Number) -> str:
    return " ".join(f"$(( {side.text} ))" for side in (need.low, need.high, limit.low, limit.high))


def _text(flag: Flag) -> str:
    return str(int(flag)) if isinstance(flag, bool) else unbracketed(flag)


# what guards the file itself


def _guards(site: Site, knobs: Mapping[str, KnobSpec], held: Mapping[str, int | None]) -> list[Gate]:
    found = []
    again = "the engine's arithmetic is another one then: have the gates written anew"
    checks, said, passes = [], [], True
    if "tp" in knobs:
        value = site.knobs.get("tp", 1)
        said.append(f"tp = {value}")
        checks.append(f'  [[ $knob_tp == {value} ]] || wrong="tp is $knob_tp"')
    for name in _model_texts(site):
        setting = site.mapped.knobs.get(name)
        filed = _base(setting.value) if setting and not setting.secret else ""
        own = _base(site.sources.sets[name]) if name in site.sources.sets else filed
        said.append(f"{name} = {own or 'unset'}")
        may_lack = f"-z $text_{name} || " if name in site.sources.sets else ""
        checks.append(f'  shopt -s nocasematch; [[ {may_lack}${{text_{name}##*/}} == {_quoted(own)} ]] || wrong='
                      f"{_quoted(f'{name} is another file')}; shopt -u nocasematch")
        passes = passes and filed.lower() in (own.lower(), "" if may_lack else own.lower())
    for name, given in held.items():
        said.append(f"{name} = {'as the engine chooses' if given is None else site.model.knobs[name].show(given)}")
        empty = f"-z $knob_{name}"
        checks.append(f"  [[ {empty if given is None else f'{empty} || $knob_{name} == {given}'} ]] || wrong="
                      f"{_quoted(f'{name} is another value in the file than the one that was given beside it')}")
        passes = passes and (name not in _stated(site) or site.filed.get(name) == given)
    if checks:
        formula = " and ".join(said)
        found.append(Gate("made_for", formula, again, "the site", (
            "gate_made_for() {", "  local wrong=''", *checks, "  if [[ -n $wrong ]]; then",
            f'    refuse "$wrong; these gates are for "{_quoted(formula)} {_quoted(again)}', "    return 1", "  fi",
            "  verdict=fits", "}", "",
        ), Verdict.FITS if passes else Verdict.DOES_NOT_FIT))
    if gone := {item.name: item for item in site.model.removed}:
        formula = f"none of {', '.join(gone)} is set"
        remedy = "; ".join(f"{item.name}: {item.instead}" for item in gone.values())
        found.append(Gate("removed_settings", formula, remedy, next(iter(gone.values())).source, (
            "gate_removed_settings() {", f"  if [[ -n {''.join(f'$gone_{name}' for name in gone)} ]]; then",
            f"    refuse {_quoted(f'{site.engine} refuses to start on a setting that it no longer knows')} "
            f"{_quoted(remedy)}", "    return 1", "  fi", "  verdict=fits", "}", "",
        ), Verdict.DOES_NOT_FIT if site.removed else Verdict.FITS))
    return found


def _model_texts(site: Site) -> list[str]:
    """The knobs that name the model file."""
    return [name for name in _TEXTS if name in site.model.knobs and site.model.knobs[name].kind == "text"]


def _base(path: str | None) -> str:
    return (path or "").strip().rsplit("/", 1)[-1]


# the file


def _head(site: Site, files: Sequence[str], warnings: Sequence[str]) -> list[str]:
    stated = " ".join(_comment(file) for file in files)
    lines = [
        f"{MARK}{site.engine}, model file {_comment(site.model.container)}: what {stated} must hold to.",
        "# shellcheck disable=SC2016,SC2034",
        "#",
        "# Written by `shapewright gates`; write it anew when the engine, the model file or a fact below changes.",
        "# ENV_FILE=path names another file. The file is read line by line and never run. All arithmetic is in whole",
        "# numbers of 64 bits, with each fact at the end of what is known of it that speaks against the settings.",
        "# A gate fails where its constraint surely or possibly does not hold, and where that cannot be told.",
    ]
    if site.model.basis == "believed":
        lines.append(f"# {site.engine} is in a known range but has no evidence of its own: its rules are believed.")
    return [*lines, *(f"# {_comment(text)}" for text in warnings), ""]


def _reader(site: Site, files: Sequence[str], knobs: Mapping[str, KnobSpec]) -> list[str]:
    names = site.model.names()
    reads = {name: _take(name, spec) for name, spec in knobs.items()}
    reads |= {name: f'text_{name}=$value' for name in _model_texts(site)}
    reads |= {item.name: f'gone_{item.name}=$value' for item in site.model.removed}
    arms = []
    for name, action in reads.items():
        spelled = [spelling for spelling, means in names.items() if means == name]
        keys = dict.fromkeys([*(site.mapped.prefix + word for word in spelled), *spelled])
        arms.append(f"    {'|'.join(key.upper() for key in keys)})\n      {action} ;;")
    start = [*(f"  knob_{name}=''" for name in knobs),
             *(f"  text_{name}=''" for name in _model_texts(site)),
             *(f"  gone_{item.name}=''" for item in site.model.removed)]
    defaults = " ".join(f'"$BATS_TEST_DIRNAME"/{_quoted(file)}' if not os.path.isabs(file) else _quoted(file)
                        for file in files)
    return [
        f"default_files=({defaults})" if files else "default_files=()", "", *_READ,
        "forget() {", *(start or ["  :"]), "}", "",
        "# One setting: $key and $value, without quotes and comments.",
        "take() {", "  case $key in", *arms, "  esac", "}", "",
    ]


def _take(name: str, spec: KnobSpec) -> str:
    what = _quoted(spec.expected)
    auto = _quoted(spec.automatic or "")
    if spec.kind == "switch":
        return f"switch knob_{name} {int(spec.path)} {what}"
    if spec.kind == "choice":
        return f"choice knob_{name} {auto} {what} {' '.join(_quoted(word) for word in spec.choices)}"
    if spec.kind == "decimal":
        return f"decimal knob_{name} {spec.low} {spec.high} {spec.scale} {auto} {what}"
    return f"whole knob_{name} {spec.low} {spec.high} {auto} {what}"


def _after(bash: Bash, knobs: Iterable[str], constants: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = ["arithmetic() {"]
    for kind, title in (("fact", "What is given: bytes, tokens or counts."),
                        ("boot", "Settings of the boot that these are from.")):
        own = [item for item in constants if item["kind"] == kind]
        if own:
            lines.append(f"  # {title}")
            lines += [f"  {item['name']}={item['value']}  # {_comment(item['source'])}" for item in own]
    stated: dict[str, int] = {}
    for name in knobs:
        default = bash.default_of(name)
        if isinstance(default, int):
            stated[name] = default
        else:
            lines.append(f"  unset_{name}=0; if [[ -z $knob_{name} ]]; then unset_{name}=1 knob_{name}=0; fi")
    if stated:
        lines.append("  # What holds where the file is silent.")
        lines += [f"  knob_{name}=${{knob_{name}:-{value}}}" for name, value in stated.items()]
    return [*lines, "  # The engine's own arithmetic, in the order it spends memory."]


def _constant_json(site: Site, bash: Bash, name: str) -> dict[str, Any]:
    constant = bash.constants[name]
    if constant.kind == "boot":
        spec = site.model.knobs[constant.of]
        return {"name": name, "kind": "boot", "value": constant.value, "unit": spec.unit,
                "source": f"{constant.of} {spec.show(constant.value)}"}
    fact = site.facts.get(constant.of)
    if fact is None and constant.of in site.binding:
        fact = site.facts.get(f"{constant.of}.{site.binding[constant.of]}")
    unit = site.model.facts[constant.of].unit if constant.of in site.model.facts else ""
    source = f"{_source(site, fact.source)} ({fact.basis})" if fact else "the facts of all cards, folded"
    if fact is None and constant.of not in site.given.facts:
        source = f"as declared for {site.engine}, where nobody gave it; --fact {constant.of}=... replaces it"
    return {"name": name, "kind": "fact", "value": constant.value, "unit": unit, "source": source}


def _source(site: Site, text: str) -> str:
    """A source without the path to the site's own files, which is nobody else's business."""
    paths = [*site.sources.config, site.sources.ledger, site.sources.host]
    for path in paths:
        if path is not None and str(path.parent) not in ("", "."):
            text = text.replace(f"{path.parent}/", "")
    return redact(text)


def _test(gate: Gate) -> str:
    title = re.sub(r"[^A-Za-z0-9 _.,:;+*/()<>=%-]", " ", f"{gate.name}: {gate.formula}")
    return f'@test "{_cut(title, _TITLE)}" {{\n  gate_{gate.name}\n}}\n'


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most - 4]} ..."


def _comment(text: str) -> str:
    return _cut(re.sub(r"[^\x20-\x7e\u00a0-\uffff]", " ", text), _FORMULA)


def _unnumbered(name: str) -> str:
    return re.sub(r"(?:_low|_high)?_\d+$", "", name)


def _quoted(text: str) -> str:
    plain = re.sub(r"[\x00-\x1f\x7f]", " ", text)
    return "'" + plain.replace("'", "'\\''") + "'"


_READ: Final = r"""# Reads env files: KEY=VALUE, `export`, quotes, comments; what it cannot read as written it refuses.
read_settings() {
  local file line number bad=0 key value rest quote
  local assignment='^[[:space:]]*(export[[:space:]]+)?([A-Za-z_][A-Za-z0-9_.-]*)[[:space:]]*=[[:space:]]*(.*)$'
  forget
  shopt -s nocasematch
  for file in "$@"; do
    if [[ ! -f $file || ! -r $file ]]; then
      echo "no env file at $file: ENV_FILE=path names it"
      bad=1
      continue
    fi
    if IFS= read -r -d '' line < "$file"; then
      echo "$file is a binary file"
      bad=1
      continue
    fi
    number=0
    while IFS= read -r line || [[ -n $line ]]; do
      number=$((number + 1))
      line=${line#$'\xef\xbb\xbf'}
      line=${line%$'\r'}
      if [[ ! $line =~ $assignment ]]; then
        if [[ ! $line =~ ^[[:space:]]*[\#\;] ]]; then
          if ! sets_nothing " $line" || ! leaves_all "$line"; then bad=1; fi
        fi
        continue
      fi
      key=${BASH_REMATCH[2]} value=${BASH_REMATCH[3]}
      quote=${value:0:1}
      if [[ $quote == '"' || $quote == "'" ]]; then
        value=${value:1}
        rest=${value#*"$quote"}
        if [[ $rest == "$value" ]]; then
          echo "$file line $number: a quote without its end: close it on its line"
          bad=1 value='$'
        else
          value=${value%%"$quote"*}
          rest=${rest#"${rest%%[![:space:]]*}"}
          if [[ -n $rest && ${rest:0:1} != '#' ]]; then value='$'; fi
        fi
      else
        rest=$value value=''
        while [[ $rest == *'#'* ]]; do
          value+=${rest%%#*}
          if [[ -z $value || $value == *[[:space:]] ]]; then rest='' && break; fi  # the comment
          value+='#' rest=${rest#*#}
        done
        value+=$rest
        if ! sets_nothing "$value"; then bad=1; fi
      fi
      value=${value#"${value%%[![:space:]]*}"}
      value=${value%"${value##*[![:space:]]}"}
      if ! take; then bad=1; fi
    done < "$file"
  done
  shopt -u nocasematch
  return "$bad"
}

# Whether none of this sets a knob, as a shell alone would read it.
sets_nothing() {
  local key value='$' rest=$1 fine=0
  local word='[[:space:];&|({]([A-Za-z_][A-Za-z0-9_]*)[+]?=(.*)$'
  while [[ $rest =~ $word ]]; do
    key=${BASH_REMATCH[1]} rest=${BASH_REMATCH[2]}
    if ! take; then fine=1; fi
  done
  return "$fine"
}

# Whether a line without KEY=VALUE leaves knobs alone: no other file is read, none is unset or taken from elsewhere.
leaves_all() {
  local key value='$' words fine=0
  read -ra words <<< "$1"
  case ${words[0]:-} in
    .|source)
      echo "$file line $number: a shell alone would read another file here: write its settings into this one"
      fine=1 ;;
    unset|read) ;;
    *) if (( ${#words[@]} > 1 )); then words=(); fi ;;
  esac
  for key in "${words[@]}"; do
    if ! take; then fine=1; fi
  done
  return "$fine"
}

wrong() {
  if [[ $value == '$' ]]; then set -- "write KEY=VALUE on a line of its own; $1"; fi
  echo "$file line $number: $key cannot be read here: $1"
  return 1
}

# NAME LOW HIGH AUTOMATIC EXPECTED
whole() {
  local text=$value digits='^[0-9]{1,15}$'
  if [[ -z $text || ( -n $4 && $text == "$4" ) ]]; then printf -v "$1" '%s' ''; return; fi
  if ! [[ $text =~ $digits ]]; then wrong "$5"; return 1; fi
  text=$((10#$text))
  if (( text < $2 || text > $3 )); then wrong "$5"; return 1; fi
  printf -v "$1" '%s' "$text"
}

# NAME LOW HIGH SCALE AUTOMATIC EXPECTED
decimal() {
  local text=$value digits='^([0-9]{1,9})([.]([0-9]{1,9}))?$' whole part scale=$4
  if [[ -z $text || ( -n $5 && $text == "$5" ) ]]; then printf -v "$1" '%s' ''; return; fi
  if ! [[ $text =~ $digits ]]; then wrong "$6"; return 1; fi
  whole=${BASH_REMATCH[1]} part=${BASH_REMATCH[3]}
  text=$((10#$whole * scale))
  while [[ -n $part ]]; do
    scale=$((scale / 10))
    if (( scale == 0 && ${part:0:1} > 0 )); then wrong "$6"; return 1; fi
    text=$((text + ${part:0:1} * scale))
    part=${part:1}
  done
  if (( text < $2 || text > $3 )); then wrong "$6"; return 1; fi
  printf -v "$1" '%s' "$text"
}

# NAME AUTOMATIC EXPECTED CHOICE...
choice() {
  local name=$1 automatic=$2 expected=$3 place=0 word
  shift 3
  if [[ -z $value || ( -n $automatic && $value == "$automatic" ) ]]; then printf -v "$name" '%s' ''; return; fi
  for word in "$@"; do
    if [[ $value == "$word" ]]; then printf -v "$name" '%s' "$place"; return; fi
    place=$((place + 1))
  done
  wrong "$expected"
}

# NAME PATHS EXPECTED
switch() {
  case $value in
    1|true|yes|on) printf -v "$1" 1 ;;
    ''|0|false|no|off) printf -v "$1" 0 ;;
    *'$'*) wrong "$3" ;;
    *) if (( $2 )); then printf -v "$1" 1; else wrong "$3"; fi ;;
  esac
}
""".splitlines()

_JUDGE: Final = r"""amount() {
  local size=${1#-} sign='' rest=''
  if (( $1 < 0 )); then sign=-; fi
  if [[ $2 == B ]] && (( size >= 1048576 )); then
    printf -v rest ' (%s%d.%02d MiB)' "$sign" $((size / 1048576)) $((size % 1048576 * 100 / 1048576))
  fi
  printf '%s %s%s' "$1" "$2" "$rest"
}

span() {
  if (( $1 == $2 )); then amount "$1" "$3"; else printf '%s to %s' "$(amount "$1" "$3")" "$(amount "$2" "$3")"; fi
}

# UNIT NEED NEED LIMIT LIMIT HOLDS FAILS OPEN
judge() {
  if (( $6 )); then verdict=fits; return 0; fi
  echo "$formula"
  if [[ -n $applies ]]; then echo "  $applies"; fi
  if (( $8 )); then
    verdict=open
    echo "  cannot be told without: $needs"
    return 1
  fi
  echo "  left   $(span "$2" "$3" "$1")"
  echo "  right  $(span "$4" "$5" "$1")"
  if (( $7 )); then
    verdict=does_not_fit
    echo "  does not fit: $(span $(($2 - $5)) $(($3 - $4)) "$1") too much"
  else
    verdict=knife_edge
    echo "  knife edge: it hangs on digits that nobody printed"
  fi
  echo "  remedy: $remedy"
  echo "  source: $source"
  return 1
}

# WHAT REMEDY
refuse() {
  verdict=does_not_fit
  echo "$1"
  echo "  remedy: $2"
}
""".splitlines()

_SETUP: Final = """setup() {
  set +T  # bats would trace every line of this: four times the time
  if [[ -n ${ENV_FILE:-} ]]; then read_settings "$ENV_FILE"; else read_settings "${default_files[@]}"; fi
  arithmetic
  set -T
}
"""


def write_gates(found: Gates, path: Path, *, force: bool = False) -> None:
    """Writes the file, whole or not at all; one that is no gates file is overwritten with ``force`` only.

    Raises ReadError (``usage``) where it cannot be written.
    """
    try:
        if path.is_dir():
            raise ReadError("is a folder; give the gates a file name", file=str(path), kind="usage")
        if path.exists() and not force:
            with path.open(encoding="utf-8", errors="replace") as stream:
                if stream.read(len(MARK)) != MARK:
                    raise ReadError("is there already and holds something else; --force overwrites it",
                                    file=str(path), kind="usage")
        path = path.resolve()  # a link stays one
        draft = path.with_name(f".{path.name}.new")
        draft.write_text(found.text, encoding="utf-8")
        draft.chmod(0o755)
        os.replace(draft, path)
    except OSError as error:
        raise ReadError(f"cannot be written: {error.strerror}", file=str(path), kind="usage") from None


def gates_json(found: Gates, path: Path | None) -> dict[str, Any]:
    """The whole answer of ``gates``."""
    return {
        "schema_version": SCHEMA_VERSION,
        "engine": engine_json(found.site),
        "file": None if path is None else str(path),
        "env_files": list(found.files),
        "gates": [_gate_json(gate) for gate in found.gates],
        "not_gated": [{"name": item.name, "why": item.why, "missing": list(item.missing)} for item in found.not_gated],
        "constants": list(found.constants),
        "warnings": list(found.warnings),
        "bats": found.text,
    }


def _gate_json(gate: Gate) -> dict[str, Any]:
    require = gate.require
    return {
        "name": gate.name, "formula": gate.formula, "source": gate.source, "remedy": gate.remedy,
        "unit": "" if require is None else require.unit,
        "phase": Phase.BOOT.value if require is None else require.phase.value,
        "outcome": "refused_at_boot" if require is None else require.broken.word,
        "basis": "read" if require is None else require.basis,
        "verdict": gate.now.word,
    }
