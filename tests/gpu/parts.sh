#!/bin/bash
# The parts of run_gpu.sh. Sourced, it defines their names and limits. Run, it
# executes one part:
#
#   parts.sh PART STATE PROGRAMS
#
# STATE is the part's folder (see report.sh), PROGRAMS the unpacked programs.
# Exits with 0 if the part passed, with 77 if it was skipped.

readonly PARTS=(facts device passes workers servers nccl bench determinism jobs
  python profile sanitizer)

# Seconds, of 60 minutes.
declare -rA LIMITS=([facts]=60 [device]=300 [passes]=120 [workers]=300
  [servers]=300 [nccl]=120 [bench]=900 [determinism]=400 [jobs]=240
  [python]=400 [profile]=180 [sanitizer]=600)

declare -rA ABOUT=([facts]="machine, driver, libraries"
  [device]="conformance of the device: every operation against float64"
  [passes]="conformance of a server's update on the device"
  [workers]="workers on the device, in clusters"
  [servers]="servers on the device, in clusters"
  [nccl]="NCCL, and an all-reduce job with one rank"
  [bench]="bench step, in turn with PyTorch if it is there"
  [determinism]="weights_sha256 over workers, servers and repetitions"
  [jobs]="whole jobs on images and text"
  [python]="modules of PyTorch, compared with plain PyTorch"
  [profile]="the ten slowest kernels of a GPT-2 124M step"
  [sanitizer]="compute-sanitizer: memcheck, racecheck, synccheck")

[[ ${BASH_SOURCE[0]} == "$0" ]] || return 0

set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
part=${1:?} state=${2:?} programs=${3:?}
readonly here part state programs

emulated=false
[[ $(<"$here/bundle.txt") == *"device: emulated"* ]] && emulated=true

# ---- Results.

figure() {
  printf '%s\t%s\n' "$1" "$2" | tee -a "$state/figures"
}

skip() {
  echo "$1" >"$state/reason"
  exit 77
}

fail() {
  echo "$1" >"$state/reason"
  exit 1
}

# Prints the number or text of the first field $2 of the JSON in $1.
field_of() {
  local text=$1 space='[[:space:]]*'
  [[ $text =~ \"$2\"$space:$space\"?([^\",}[:space:]]+) ]] || return 1
  printf '%s' "${BASH_REMATCH[1]}"
}

# ---- Programs and their libraries.

# Prints the folders in which the toolkit, pip and the driver install libraries.
library_folders() {
  local packages=({/usr/local,/usr,/opt/*}/lib/python3*/{site,dist}-packages
    "${HOME:-/root}/.local/lib"/python3*/site-packages)
  local folder
  printf '%s\n' /usr/local/cuda/lib64 /usr/local/cuda-*/lib64 \
    /usr/local/cuda*/targets/*/lib /usr/lib/x86_64-linux-gnu
  # The Python on the PATH may be in a virtual environment.
  if command -v python3 >/dev/null; then
    mapfile -t -O "${#packages[@]}" packages < <(python3 -c \
      'import sysconfig; print(sysconfig.get_path("purelib"))' 2>/dev/null)
  fi
  for folder in "${packages[@]}"; do
    printf '%s\n' "$folder"/nvidia/*/lib
  done
}

# Prints the search path of the bundle's programs: the bundle's libraries, and
# the first folder that has each library of CUDA that bundle.txt names.
find_libraries() {
  local path=$programs/lib word name folder
  while read -r word name; do
    [[ $word == library: ]] || continue
    while read -r folder; do
      [[ -e $folder/$name ]] || continue
      path+=:$folder
      break
    done < <(library_folders)
  done <"$here/bundle.txt"
  path+=${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  # The machine's libstdc++ if it is recent enough, because other libraries of
  # the machine may need a newer one than the bundle's.
  if ! LD_LIBRARY_PATH=$path "$programs/bin/tributary" --help \
    >/dev/null 2>&1; then
    path=$programs/lib/compiler:$path
  fi
  echo "$path"
}

library_path=$(find_libraries)

# The program as a command.
readonly tributary=(env LD_LIBRARY_PATH="$library_path"
  "$programs/bin/tributary")

# Prints the Python that has a PyTorch with CUDA.
find_torch() {
  local python
  for python in python3 python /opt/conda/bin/python; do
    command -v "$python" >/dev/null || continue
    "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' \
      >/dev/null 2>&1 || continue
    echo "$python"
    return
  done
  return 1
}

# Runs a test program: run_test PROGRAM. Its cases become figures.
run_test() {
  local program=$1 code line count
  local -A cases=([PASSED]=0 [SKIPPED]=0 [FAILED]=0)
  [[ -x $programs/bin/$program ]] || skip "the bundle has no $program"
  LD_LIBRARY_PATH=$library_path "$programs/bin/$program" --gtest_color=no |
    tee "$state/output"
  code=${PIPESTATUS[0]}
  while read -r line; do
    [[ $line =~ ^\[\ *(PASSED|SKIPPED|FAILED)\ *\]\ ([0-9]+)\ test ]] &&
      cases[${BASH_REMATCH[1]}]=${BASH_REMATCH[2]}
  done <"$state/output"
  for count in PASSED SKIPPED FAILED; do
    figure "cases ${count,,}" "${cases[$count]}"
  done
  ((code == 0)) || fail "exit status $code, ${cases[FAILED]} cases failed"
  ((cases[PASSED] > 0)) || skip "no case ran: no GPU that CUDA can use"
}

# ---- Parts.

part_facts() {
  local line devices
  figure machine "$(uname -srm), $(nproc) cores"
  figure "search path" "$library_path"
  if command -v nvidia-smi >/dev/null; then
    nvidia-smi
    line=$(nvidia-smi --format=csv,noheader \
      --query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit)
    figure "name, driver, memory, clock, power" "${line//$'\n'/; }"
  else
    figure nvidia-smi "not found"
  fi
  devices=$("${tributary[@]}" devices) || fail "tributary devices failed"
  echo "$devices"
  [[ $devices == *cuda:0* ]] ||
    fail "no GPU that CUDA can use: ${devices##*no CUDA device: }"
}

part_device() { run_test device_test; }
part_passes() { run_test passes_test; }
part_workers() { run_test workers_test; }
part_servers() { run_test servers_test; }

# Trains a job of the bundle: train JOB [ARGUMENT...]. Sets `summary`.
train() {
  local job=$1 data
  shift
  case $job in
    digits) data=data.idx.directory=$programs/data/digits ;;
    text) data=data.text.path=$programs/data/text.txt ;;
  esac
  echo "train $job $*"
  "${tributary[@]}" train "$programs/data/$job.textproto" --set "$data" \
    --quiet --overwrite --output "$state/run" "$@" || return 1
  summary=$(<"$state/run/summary.json")
}

# Shrinks a job for the emulated GPU, which is slow: sets `small`, arguments for
# train.
declare -A steps=([digits]=300 [text]=300)
small=()
shrink() {
  $emulated || return 0
  steps=([digits]=2 [text]=2)
  case $1 in
    digits) small=(--set evaluation.disabled=true --set batch.global=8
      --set model.cnn.hidden=8 --set model.cnn.block='{channels: 2}') ;;
    text) small=(--set evaluation.disabled=true --set batch.global=4
      --set model.gpt='{layers: 1 heads: 2 width: 16 context: 16}') ;;
  esac
}

# Trains with an all-reduce of one rank, in GPU memory (NCCL) and through the
# host (Gloo). The job `text` clips gradients, `digits` does not.
part_nccl() {
  local job gloo nccl arguments differs=false
  if [[ -x $programs/bin/nccl_test ]]; then run_test nccl_test; fi
  for job in digits text; do
    shrink "$job"
    arguments=("$job" --workers 1 --device cuda
      --steps "$((steps[$job] / 10 + 1))" "${small[@]}")
    train "${arguments[@]}" --set exchange.all_reduce.backend=GLOO ||
      fail "$job with Gloo failed"
    gloo=$(field_of "$summary" weights_sha256)
    figure "$job, Gloo, one rank" "$gloo"
    if $emulated; then continue; fi
    train "${arguments[@]}" --set exchange.all_reduce.backend=NCCL ||
      fail "$job with NCCL failed"
    nccl=$(field_of "$summary" weights_sha256)
    figure "$job, NCCL, one rank" "$nccl"
    [[ $nccl == "$gloo" ]] || differs=true
  done
  if $emulated; then
    skip "the emulated GPU has no NCCL; the jobs with Gloo passed"
  fi
  $differs && fail "the weights differ, see the figures"
  return 0
}

part_jobs() {
  local job loss accuracy
  for job in digits text; do
    shrink "$job"
    train "$job" --workers 2 --device cuda --steps "${steps[$job]}" \
      "${small[@]}" || fail "$job failed"
    figure "$job: samples per second" \
      "$(field_of "$summary" samples_per_second)"
    figure "$job: final loss" "$(field_of "$summary" final_loss)"
    $emulated && continue
    accuracy=$(field_of "$summary" accuracy)
    figure "$job: accuracy" "$accuracy"
    # On the CPU, digits reaches 0.97 and text 0.27.
    loss=0.9
    [[ $job == text ]] && loss=0.2
    [[ ! $accuracy < $loss ]] || fail "$job: accuracy $accuracy, expected $loss"
  done
}

# Trains one job in every way that must not change its weights.
compare_weights() {
  local job=$1 precision=$2 expected="" workers server repetition name digest
  shrink "$job"
  for workers in 1 2; do
    for server in cpu cuda; do
      name="$job $precision, workers: $workers, server: $server"
      for repetition in 1 2 3; do
        train "$job" --workers "$workers" --device cuda \
          --server-device "$server" --steps "$((steps[$job] / 10 + 1))" \
          "${small[@]}" --set precision="$precision" ||
          fail "$name: failed"
        digest=$(field_of "$summary" weights_sha256)
        figure "$name, #$repetition" "$digest"
        [[ ${expected:=$digest} == "$digest" ]] || differs=true
        # The emulated GPU is deterministic.
        $emulated && break
      done
    done
  done
}

part_determinism() {
  local job precision
  differs=false
  for job in digits text; do
    for precision in FLOAT32 BFLOAT16; do
      compare_weights "$job" "$precision"
      if $emulated; then break; fi
    done
  done
  $differs && fail "the weights differ, see the figures"
  return 0
}

# Trains modules on the GPU: with any number of workers, and while processes are
# killed, the weights have the same bits, and the losses are those of plain
# PyTorch.
part_python() {
  local python test line server seconds=4 broken=() median
  local tests=(plain_pytorch_test.PlainPyTorchTest.test_{cnn,gpt}_with_{sgd,adamw})
  local -A processes=()
  python=$(find_torch) || skip "no PyTorch that can use the GPU"
  [[ -d $programs/python ]] || skip "the bundle has no Python package"
  cd "$programs/python" || fail "no folder python"
  export PYTHONPATH=$PWD:$PWD/tests/python TEST_TMPDIR=$PWD
  export TRIBUTARY_DEVICE=cuda TRIBUTARY_TEXT=$programs/data/text.txt
  if [[ $library_path == "$programs/lib/compiler":* ]]; then
    export LD_LIBRARY_PATH=$programs/lib/compiler
  fi
  for test in "${tests[@]}"; do
    "$python" -m unittest "$test" >"$state/$test.log" 2>&1 &
    processes[$test]=$!
  done
  for test in "${tests[@]}"; do
    wait "${processes[$test]}" || broken+=("$test")
    cat "$state/$test.log"
    while read -r line; do
      [[ $line == *": losses "* || $line == *": killed "* ]] &&
        figure "${test##*.}" "$line"
    done <"$state/$test.log"
  done
  for server in cpu cuda; do
    bench "module gpt2, batch 16, BFLOAT16, server: $server" "$python" \
      "$here/python_step.py" --device cuda --workers 1 --models gpt2 \
      --batch 16 --precision BFLOAT16 --server-device "$server" --rounds 1 \
      --seconds "$seconds"
  done
  end_bench
}

# ---- Speed.

# Prints a decimal number, times a thousand.
thousandths() {
  [[ $1 =~ ^([0-9]+)(\.([0-9]*))?$ ]] || return 1
  local digits=${BASH_REMATCH[3]:-}000
  echo $((10#${BASH_REMATCH[1]}${digits:0:3}))
}

# Prints the quotient of two numbers.
quotient() {
  local a b
  a=$(thousandths "$1") && b=$(thousandths "$2") && ((b > 0)) || return 1
  printf '%d.%03d' $((a / b)) $((a * 1000 / b % 1000))
}

# Runs a benchmark that prints a JSON object: bench NAME COMMAND... Sets
# `median`. A benchmark that fails does not stop the others.
bench() {
  local name=$1 output result="" line
  shift
  echo "$name: $*"
  # In the part's process group, which its own limit ends.
  output=$(timeout --foreground 150 "$@") || {
    figure "$name" "failed with exit status $?"
    broken+=("$name")
    return 1
  }
  # Warnings may surround the object.
  while read -r line; do
    [[ $line == "{"*"}" ]] && result=$line
  done <<<"$output"
  figure "$name" "$result"
  median=$(field_of "$result" median_ms)
}

# Times a model at a batch (0: the model's) and a precision, with Tributary and
# with PyTorch, compiled and eager.
bench_model() {
  local model=$1 batch=$2 precision=$3 name ours kind
  local flags=(--seconds "$seconds")
  name="$model, $precision"
  if ((batch > 0)); then
    name="$model, batch $batch, $precision"
    flags+=(--batch "$batch")
  fi
  bench "tributary, $name" "${tributary[@]}" bench step "$model" \
    --device cuda:0 --json "${flags[@]}" --set "precision=$precision" \
    "${sets[@]}" || return
  ours=$median
  [[ -n $torch ]] || return
  for kind in compiled eager; do
    bench "pytorch $kind, $name" "$torch" "$here/torch_step.py" "$model" \
      --kind "$kind" --precision "$precision" --device cuda "${flags[@]}" &&
      figure "ratio to pytorch $kind, $name" "$(quotient "$ours" "$median")"
  done
}

# The exchange on one GPU, with the server on the CPU and on the GPU.
bench_exchange() {
  local server
  for server in cpu cuda:0; do
    bench "tributary, exchange, server: $server, $1" "${tributary[@]}" bench \
      step "${@:2}" --mode exchange --workers 1 --device cuda:0 \
      --server-device "$server" --json --seconds "$seconds" \
      --set precision=BFLOAT16 "${sets[@]}"
  done
}

part_bench() {
  local model batch precision torch seconds=4 sets=() broken=() median
  if $emulated; then
    bench_emulated
    return
  fi
  torch=$(find_torch) || figure pytorch "not found, or it has no CUDA"
  # The most important figures first: the part may reach its limit.
  for batch in 4 16; do bench_model gpt2 "$batch" BFLOAT16; done
  bench_exchange "gpt2, batch 16" gpt2 --batch 16
  for model in gpt resnet18 cnn mlp bigmlp; do
    for precision in BFLOAT16 FLOAT32; do
      bench_model "$model" 0 "$precision"
    done
  done
  end_bench
}

# Each model in small, to try the commands.
bench_emulated() {
  local seconds=0.3 torch="" batch=2
  local gpt='{layers: 1 heads: 2 width: 16 context: 8}'
  sets=(--set model.mlp.hidden=8)
  bench_model mlp "$batch" FLOAT32
  sets=(--set "model.gpt=$gpt")
  bench_model gpt "$batch" BFLOAT16
  sets=(--set "model.gpt=${gpt%\}} vocabulary: 300 vocabulary_multiple: 64}")
  bench_model gpt2 "$batch" BFLOAT16
  sets=(--set model.mlp.hidden=8)
  bench_exchange mlp mlp
  end_bench
}

end_bench() {
  ((${#broken[@]} == 0)) || fail "${#broken[@]} failed: ${broken[*]}"
}

# Prints the path of a tool of the CUDA toolkit.
find_tool() {
  local path
  command -v "$1" && return
  for path in /usr/local/cuda/bin /usr/local/cuda-*/bin \
    /usr/local/cuda*/compute-sanitizer /opt/nvidia/nsight-systems/*/bin; do
    [[ -x $path/$1 ]] || continue
    echo "$path/$1"
    return
  done
  return 1
}

# The arguments of the program that is profiled.
readonly PROFILED=(bench step gpt2 --batch 16 --device cuda:0
  --set precision=BFLOAT16)

# Prints "TOTAL us, CALLS calls, NAME" for each kernel in the CSV of ncu, the
# slowest first.
kernels_of_ncu() {
  local line fields name ns
  local -A total=() calls=()
  while read -r line; do
    [[ $line =~ ^\"[0-9] ]] || continue
    line=${line//\",\"/$'\t'}
    IFS=$'\t' read -r -a fields <<<"$line"
    # Without its parameters, and without the digits' separators.
    name=${fields[4]%%(*}
    ns=${fields[-1]//[!0-9]/}
    total[$name]=$((${total[$name]:-0} + ns))
    calls[$name]=$((${calls[$name]:-0} + 1))
  done
  for name in "${!total[@]}"; do
    printf '%d us, %d calls, %s\n' $((total[$name] / 1000)) \
      "${calls[$name]}" "$name"
  done | sort --numeric-sort --reverse
}

# Prints a line for each kernel, the slowest first.
profile() {
  local nsys ncu
  if nsys=$(find_tool nsys); then
    "$nsys" profile --output "$state/gpt2" --trace cuda,nvtx \
      "${tributary[@]}" "${PROFILED[@]}" --seconds 2 >&2 &&
      "$nsys" stats --report cuda_gpu_kern_sum --format csv --timeunit us \
        "$state/gpt2.nsys-rep"
  elif ncu=$(find_tool ncu); then
    # After the steps in which CUDA graphs are made; a step is 365 launches.
    "$ncu" --clock-control none --metrics gpu__time_duration.sum --csv \
      --print-units base \
      --launch-skip 1500 --launch-count 365 \
      "${tributary[@]}" "${PROFILED[@]}" --seconds 0.3 | kernels_of_ncu
  else
    return 77
  fi
}

part_profile() {
  local line rank=0 code
  profile >"$state/kernels"
  code=$?
  ((code != 77)) || skip "neither nsys nor ncu is installed"
  ((code == 0)) || fail "the profiler failed"
  while read -r line; do
    [[ $line =~ ^[0-9] ]] || continue
    ((++rank <= 10)) || break
    figure "kernel $rank" "$line"
  done <"$state/kernels"
  ((rank > 0)) || fail "the profiler lists no kernel"
}

# Tests of the kernels with barriers, shared memory and shuffles.
SANITIZED='*Attention*:*CrossEntropy*:*LayerNorm*:*EmbeddingBackward*'
SANITIZED+=':*LinearBackwardWeight*:*BatchNormForward*'
readonly SANITIZED

part_sanitizer() {
  local sanitizer tool code broken=()
  sanitizer=$(find_tool compute-sanitizer) ||
    skip "compute-sanitizer is not installed"
  for tool in memcheck racecheck synccheck; do
    timeout --foreground 190 env LD_LIBRARY_PATH="$library_path" "$sanitizer" \
      --tool "$tool" --error-exitcode 99 "$programs/bin/device_test" \
      --gtest_color=no --gtest_filter="$SANITIZED"
    code=$?
    if ((code == 0)); then
      figure "$tool" passed
    else
      figure "$tool" "exit status $code"
      broken+=("$tool")
    fi
  done
  ((${#broken[@]} == 0)) || fail "${broken[*]} failed"
}

"part_$part"
