"""Renders deploy/kubernetes/chart as `helm template` does.

Knows only the part of the template language that the chart uses, and refuses
everything else.
"""

import copy
import json
import pathlib
import re

import yaml

_ACTION = re.compile(r"(\s*)\{\{(-?)\s*(.*?)\s*(-?)\}\}(\s*)", re.DOTALL)
_WORD = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^\s()"]+|[()])')


def render(folder, release, values):
    """Returns the objects of the chart for a release with this name.

    `values` is a dictionary of what differs from values.yaml.
    """
    folder = pathlib.Path(folder)
    defaults = yaml.safe_load((folder / "values.yaml").read_text())
    root = {"Release": {"Name": release}, "Values": _merged(defaults, values)}
    objects = []
    for path in sorted((folder / "templates").glob("*.yaml")):
        text = _Template(path.read_text()).render(root)
        objects += [o for o in yaml.safe_load_all(text) if o is not None]
    return objects


def _merged(defaults, values):
    result = copy.deepcopy(defaults)
    for key, value in values.items():
        _require(key in result, f"unknown value {key}")
        both = isinstance(result[key], dict) and isinstance(value, dict)
        known = both and set(value) <= set(result[key])
        result[key] = _merged(result[key], value) if known else value
    return result


class _Template:

    def __init__(self, text):
        self._pieces = []  # Texts, and actions as lists of words.
        end = 0
        for match in _ACTION.finditer(text):
            before, trim, action, trim_after, after = match.groups()
            self._pieces.append(text[end:match.start()] +
                                ("" if trim else before))
            self._pieces.append(_WORD.findall(action))
            self._pieces.append("" if trim_after else after)
            end = match.end()
        self._pieces.append(text[end:])

    def render(self, root):
        self._root, self._next = root, 0
        text = self._block(root, shown=True)
        _require(self._next == len(self._pieces), "an end without a beginning")
        return text

    def _block(self, dot, shown):
        """Renders up to the action `else` or `end`, and returns the text."""
        result = []
        while self._next < len(self._pieces):
            piece = self._pieces[self._next]
            if piece in (["else"], ["end"]):
                break
            self._next += 1
            if isinstance(piece, str):
                result.append(piece)
            elif piece[0] in ("if", "with"):
                result.append(self._choice(piece, dot, shown))
            elif shown:
                value = self._pipeline(piece, dot)
                result.append(value if isinstance(value, str) else
                              json.dumps(value))
        return "".join(result) if shown else ""

    def _choice(self, piece, dot, shown):
        value = self._pipeline(piece[1:], dot) if shown else None
        text = self._block(value if piece[0] == "with" else dot,
                           shown and bool(value))
        if self._pieces[self._next] == ["else"]:
            self._next += 1
            text += self._block(dot, shown and not value)
        _require(self._pieces[self._next] == ["end"], f"{piece} has no end")
        self._next += 1
        return text

    def _pipeline(self, words, dot):
        value, calls = None, [[]]
        for word in words:
            if word == "|":
                calls.append([])
            else:
                calls[-1].append(word)
        for number, call in enumerate(calls):
            value = self._call(call, dot, [value] if number else [])
        return value

    def _call(self, words, dot, last):
        words = list(words)
        name = words.pop(0)
        if re.fullmatch(r"\.[\w.]*", name):
            _require(not words and not last, f"{name} takes nothing")
            return self._field(name, dot)
        return _FUNCTIONS[name](*self._arguments(words, dot), *last)

    def _arguments(self, words, dot):
        while words:
            word = words.pop(0)
            if word == "(":
                end = words.index(")")
                yield self._call(words[:end], dot, [])
                del words[:end + 1]
            elif word.startswith("."):
                yield self._field(word, dot)
            else:
                yield json.loads(word)

    def _field(self, name, dot):
        value = self._root if re.match(r"\.[A-Z]", name) else dot
        for key in filter(None, name.split(".")):
            value = value[key]  # A value that is not in values.yaml: KeyError.
        return value


def _required(message, value):
    _require(value, message)
    return value


def _to_yaml(value):
    return yaml.safe_dump(value, default_flow_style=False).rstrip("\n")


_FUNCTIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "quote": json.dumps,
    "required": _required,
    "toYaml": _to_yaml,
    "nindent": lambda count, text: "\n" + "\n".join(
        " " * count + line for line in text.splitlines()),
}


def _require(condition, message):
    if not condition:
        raise ValueError(message)
