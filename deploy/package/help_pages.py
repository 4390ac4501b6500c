#!/usr/bin/env python3
"""Makes man pages and shell completions from the texts of --help.

    help_pages.py PROGRAM FOLDER

Writes man1/*.1, bash/tributary and zsh/_tributary to FOLDER. The program's flags are
the only source: a new command or flag needs no change here.
"""

import pathlib
import re
import subprocess
import sys


class Flag:
    """One flag: its name, the placeholder of its value ('' for a switch), and its help."""

    def __init__(self, name, value, text):
        self.name = name
        self.value = value
        self.text = text

    def choices(self):
        """The values that the placeholder lists, such as auto and cpu; most flags have none."""
        words = self.value.split('|')
        return [word for word in words if re.fullmatch(r'[a-z0-9-]+', word)]

    def names_file(self):
        return bool(re.search(r'\b(FILE|DIR)\b', self.value))


class Page:
    """The help of one command, in parts.

    words: the command, such as ['tributary', 'bench', 'step'].
    about: paragraphs of the description. examples: pairs (command line, meaning).
    usage: lines. flags: a list of Flag. commands: pairs (name, summary).
    """

    def __init__(self, words, help_text):
        self.words = words
        self.about, self.examples, self.usage = [], [], []
        self.flags, self.commands = [], []
        part = self.about
        for block in help_text.rstrip('\n').split('\n\n'):
            lines = block.split('\n')
            if lines[0] == 'Examples:':
                self.examples = pairs(lines[1:])
            elif lines[0].startswith('Usage: '):
                self.usage = [line[len('Usage: '):] for line in lines]
            elif lines[0].startswith('Flags '):
                self.flags = flags(lines[1:])
            elif lines[0] == 'Commands:':
                self.commands = [tuple(line.split(None, 1)) for line in lines[1:]]
            else:
                part.append(' '.join(lines))
        # What follows the usage only says how to get more help.
        if self.usage and help_text.find(self.about[-1][:20]) > help_text.find('Usage: '):
            self.about.pop()

    def name(self):
        return '-'.join(self.words)

    def subcommands(self):
        """The words that follow this command in its usage, such as step and exchange."""
        if self.commands:
            return [name for name, _ in self.commands]
        pattern = re.escape(' '.join(self.words)) + r' ([a-z]+)\b'
        return [found[1] for found in map(re.compile(pattern).match, self.usage) if found]

    def summary(self):
        first = re.split(r'(?<=[.:]) ', self.about[0])[0].rstrip('.:')
        return first[0].lower() + first[1:]


def pairs(lines):
    """Returns (command line, meaning) of lines indented by 2 and by 6 spaces."""
    found = []
    for line in lines:
        if line.startswith('      '):
            found[-1][1] += (' ' if found[-1][1] else '') + line.strip()
        else:
            found.append([line.strip(), ''])
    return [tuple(pair) for pair in found]


def flags(lines):
    found = []
    for line in lines:
        declared = re.match(r'  --([a-z0-9-]+)(?: ([^ ]+))?(?:  +(.*))?$', line)
        if declared:
            found.append(Flag(declared[1], declared[2] or '', declared[3] or ''))
        elif line.strip():
            found[-1].text = f'{found[-1].text} {line.strip()}'.strip()
    return found


def read_pages(program, words=('tributary',)):
    """Returns the pages of a command and of all commands below it."""
    text = subprocess.run([program, *words[1:], '--help'], check=True,
                          capture_output=True, text=True).stdout
    page = Page(list(words), text)
    pages = [page]
    for name in page.subcommands():
        pages += read_pages(program, (*words, name))
    return pages


def roff(text):
    """Escapes text for roff."""
    escaped = text.replace('\\', r'\e').replace('-', r'\-').replace("'", r'\(aq')
    return r'\&' + escaped if escaped.startswith('.') else escaped


def man_page(page, pages, version):
    lines = [f'.TH {page.name().upper()} 1 "" "tributary {version}" "User Commands"',
             '.SH NAME', f'{roff(page.name())} \\- {roff(page.summary())}',
             '.SH SYNOPSIS', '.nf', *map(roff, page.usage), '.fi',
             '.SH DESCRIPTION']
    for paragraph in page.about:
        lines += ['.PP', roff(paragraph)]
    if page.commands:
        lines.append('.SH COMMANDS')
        for name, summary in page.commands:
            lines += ['.TP', f'.B {roff(name)}', roff(summary)]
    if page.flags:
        lines += ['.SH OPTIONS', 'The variable TRIBUTARY_A_B of the environment sets the flag',
                  r'\-\-a\-b; the flag takes precedence.']
        for flag in page.flags:
            value = f' \\fI{roff(flag.value)}\\fR' if flag.value else ''
            lines += ['.TP', f'\\fB\\-\\-{roff(flag.name)}\\fR{value}', roff(flag.text)]
    if page.examples:
        lines.append('.SH EXAMPLES')
        for command, meaning in page.examples:
            lines += ['.TP', f'.B {roff(command)}', roff(meaning)]
    lines += ['.SH SEE ALSO', ', '.join(f'\\fB{roff(other.name())}\\fR(1)'
                                        for other in pages if other is not page)]
    return '\n'.join(lines) + '\n'


BASH = '''\
# Completion of the command tributary for bash; made from its --help.
_tributary() {
  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command= i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$command ${COMP_WORDS[i]}" in
%(walk)s
      *) break ;;
    esac
  done
  local values= flags= subcommands=
  case "$command $previous" in
%(values)s
  esac
  case "$command" in
%(flags)s
  esac
  if [[ $values == - ]]; then
    COMPREPLY=()
  elif [[ -n $values ]]; then
    COMPREPLY=($(compgen -W "$values" -- "$word"))
  elif [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$flags --help" -- "$word"))
  elif [[ -n $subcommands ]]; then
    COMPREPLY=($(compgen -W "$subcommands" -- "$word"))
  else
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}
complete -F _tributary tributary
'''


def bash_completion(pages):
    """A flag's values are its choices, files, or "-" for what cannot be completed."""
    walk, values, lists = [], [], []
    for page in pages:
        command = ''.join(f' {word}' for word in page.words[1:])
        for name in page.subcommands():
            walk.append(f'      "{command} {name}") command="{command} {name}" ;;')
        for flag in page.flags:
            if flag.value and not flag.names_file():
                choices = ' '.join(flag.choices()) or '-'
                values.append(f'    "{command} --{flag.name}") values="{choices}" ;;')
        flag_list = ' '.join(f'--{flag.name}' for flag in page.flags)
        lists.append(f'    "{command}") flags="{flag_list}" '
                     f'subcommands="{" ".join(page.subcommands())}" ;;')
    return BASH % {'walk': '\n'.join(walk), 'values': '\n'.join(values),
                   'flags': '\n'.join(lists)}


def zsh_quoted(text):
    """Escapes text for a specification of _arguments in single quotes."""
    return re.sub(r'([\\:\[\]])', r'\\\1', text).replace("'", "'\\''")


def zsh_flag(flag):
    specification = f"--{flag.name}[{zsh_quoted(re.split(r'(?<=[.]) ', flag.text)[0])}]"
    if not flag.value:
        return f"'{specification}'"
    action = '_files' if flag.names_file() else ''
    if flag.choices():
        action = f"({' '.join(flag.choices())})"
    return f"'*{specification}:{zsh_quoted(flag.value)}:{action}'"


def zsh_function(page):
    name = '_' + '_'.join(page.words)
    lines = [f'{name}() {{']
    if page.subcommands():
        described = dict(page.commands)
        lines += ['  local -a commands=(']
        lines += [f"    '{word}:{zsh_quoted(described.get(word, word))}'"
                  for word in page.subcommands()]
        lines += ['  )', '  if ((CURRENT == 2)); then',
                  "    _describe command commands", '    return', '  fi',
                  '  shift words', '  ((--CURRENT))', '  case $words[1] in']
        lines += [f'    {word}) {name}_{word} ;;' for word in page.subcommands()]
        lines += ['  esac']
    else:
        lines += ['  _arguments \\']
        lines += [f'    {zsh_flag(flag)} \\' for flag in page.flags]
        lines += ["    '--help[Describe the command.]' \\", "    '*:file:_files'"]
    return '\n'.join(lines + ['}'])


def zsh_completion(pages):
    functions = '\n\n'.join(map(zsh_function, pages))
    return ('#compdef tributary\n# Completion of the command tributary for zsh; made from its '
            f'--help.\n\n{functions}\n\n_tributary "$@"\n')


def main():
    if len(sys.argv) != 3:
        sys.exit('usage: help_pages.py PROGRAM FOLDER')
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    version = subprocess.run([program, '--version'], check=True, capture_output=True,
                             text=True).stdout.split()[1]
    pages = read_pages(program)
    files = {f'man1/{page.name()}.1': man_page(page, pages, version) for page in pages}
    files['bash/tributary'] = bash_completion(pages)
    files['zsh/_tributary'] = zsh_completion(pages)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == '__main__':
    main()
