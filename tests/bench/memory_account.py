#!/usr/bin/env python3
"""Compares the memory that jobs need, as `tributary train` computes it, with what their
processes use:

    memory_account.py PROGRAM JOB ARGUMENTS... [-- JOB ARGUMENTS...]...

Trains each job with its arguments, and prints a row: the account of all processes, and
the largest sum of their proportional set sizes, sampled 30 times a second, in MB. The
launcher does not count, except with --in-process.
"""
import json
import os
import subprocess
import sys
import tempfile
import time


def processes_of(pid):
    """Returns the process and its descendants."""
    found = [pid]
    try:
        for task in os.listdir(f'/proc/{pid}/task'):
            with open(f'/proc/{pid}/task/{task}/children', encoding='ascii') as file:
                for child in file.read().split():
                    found += processes_of(int(child))
    except OSError:
        pass
    return found


def proportional_bytes(pid):
    try:
        with open(f'/proc/{pid}/smaps_rollup', encoding='ascii') as file:
            for line in file:
                if line.startswith('Pss:'):
                    return 1024 * int(line.split()[1])
    except OSError:
        pass
    return 0


def measure(program, arguments):
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, 'run')
        one_process = '--in-process' in arguments
        with subprocess.Popen([program, 'train', *arguments, '--output', run],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True) as process:
            peak = 0
            while process.poll() is None:
                members = processes_of(process.pid)
                peak = max(peak, sum(map(proportional_bytes,
                                         members if one_process else members[1:])))
                time.sleep(1 / 30)
            if process.returncode != 0:
                raise SystemExit(process.stderr.read())
        with open(os.path.join(run, 'summary.json'), encoding='utf-8') as file:
            members = json.load(file)['processes']
    account = sum(sum(member['memory_account'].values()) for member in members)
    if one_process:  # It is one program, and what starts the others.
        account -= (len(members) - 2) * members[0]['memory_account']['program']
    return account, peak


def main():
    program, *rest = sys.argv[1:]
    jobs = [[]]
    for argument in rest:
        if argument == '--':
            jobs.append([])
        else:
            jobs[-1].append(argument)
    print('| job | account, MB | measured, MB | ratio |\n| --- | --- | --- | --- |')
    for arguments in jobs:
        account, peak = measure(program, arguments)
        name = ' '.join([os.path.basename(arguments[0])] + arguments[1:])
        print(f'| `{name}` | {account / 1e6:.1f} | {peak / 1e6:.1f} | '
              f'{account / peak:.2f} |', flush=True)


if __name__ == '__main__':
    main()
