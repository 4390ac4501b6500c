# The report of run_gpu.sh: report.md and report.json in the folder $report.
# Each part has a folder $report/parts/NAME with these files:
#
#   outcome  passed, failed, skipped, running or "not run"
#   seconds, limit, reason
#   figures  lines "name<TAB>value"; a value is a number, a JSON object or text
#   log      the output of the part

# Number of lines and bytes of a log that the report quotes.
readonly TAIL_LINES=25
readonly TAIL_BYTES=4000

failures=0

# Records what became of a part: record PART OUTCOME SECONDS REASON.
record() {
  local state=$report/parts/$1
  echo "$2" >"$state/outcome"
  echo "$3" >"$state/seconds"
  echo "$4" >"$state/reason"
  if [[ $2 == failed ]]; then ((failures += 1)); fi
}

value_of() {
  [[ -f $report/parts/$1/$2 ]] && printf '%s' "$(<"$report/parts/$1/$2")"
}
outcome_of() { value_of "$1" outcome; }
seconds_of() { value_of "$1" seconds; }
reason_of() { value_of "$1" reason; }

# Prints the end of a part's log as printable ASCII.
log_tail() {
  local log=$report/parts/$1/log
  [[ -f $log ]] || return 0
  tail -n "$TAIL_LINES" "$log" | tail -c "$TAIL_BYTES" | tr '\t' ' ' |
    tr -cd '\12\40-\176'
}

json_string() {
  local text
  text=$(tr '\t' ' ' <<<"$1" | tr -cd '\12\40-\176')
  text=${text//\\/\\\\}
  text=${text//\"/\\\"}
  printf '"%s"' "${text//$'\n'/\\n}"
}

json_value() {
  if [[ $1 =~ ^-?(0|[1-9][0-9]*)(\.[0-9]+)?$ || $1 == "{"*"}" ]]; then
    printf '%s' "$1"
  else
    json_string "$1"
  fi
}

json_figures() {
  local name value separator=""
  [[ -f $report/parts/$1/figures ]] || return 0
  while IFS=$'\t' read -r name value; do
    printf '%s\n        %s: %s' "$separator" "$(json_string "$name")" \
      "$(json_value "$value")"
    separator=","
  done <"$report/parts/$1/figures"
}

json_part() {
  printf '    {\n      "name": "%s",\n' "$1"
  printf '      "outcome": "%s",\n' "$(outcome_of "$1")"
  printf '      "reason": %s,\n' "$(json_string "$(reason_of "$1")")"
  printf '      "seconds": %s,\n' "$(seconds_of "$1")"
  printf '      "limit_seconds": %s,\n' "$(value_of "$1" limit || echo 0)"
  printf '      "figures": {%s},\n' "$(json_figures "$1")"
  printf '      "log_tail": %s\n    }' "$(json_string "$(log_tail "$1")")"
}

print_json() {
  local part separator=""
  printf '{\n  "bundle": %s,\n' "$(json_string "$(<"$here/bundle.txt")")"
  printf '  "minutes": %s,\n  "seconds": %s,\n' "$minutes" "$SECONDS"
  printf '  "parts": ['
  for part in "${parts[@]}"; do
    printf '%s\n%s' "$separator" "$(json_part "$part")"
    separator=","
  done
  printf '\n  ]\n}\n'
}

# A cell of a table: `|` would begin the next one. Of a benchmark's object, only
# the median.
cell() {
  if [[ $1 == "{"*"}" && $1 =~ \"median_ms\":\ ?([0-9.]+) ]]; then
    printf '%s ms' "${BASH_REMATCH[1]}"
  else
    printf '%s' "${1//|/\\|}"
  fi
}

markdown_figures() {
  local name value
  [[ -s $report/parts/$1/figures ]] || return 0
  printf '\n| figure | value |\n| --- | --- |\n'
  while IFS=$'\t' read -r name value; do
    printf '| %s | %s |\n' "$(cell "$name")" "$(cell "$value")"
  done <"$report/parts/$1/figures"
}

markdown_part() {
  printf '\n## %s: %s\n' "$1" "$(outcome_of "$1")"
  markdown_figures "$1"
  [[ $(outcome_of "$1") == failed ]] || return 0
  printf '\nEnd of `parts/%s/log`:\n\n```\n%s\n```\n' "$1" "$(log_tail "$1")"
}

print_markdown() {
  local part
  printf '# Tributary on a GPU\n\n```\n%s\n```\n\n' "$(<"$here/bundle.txt")"
  printf '%s s of %s minutes.\n\n' "$SECONDS" "$minutes"
  printf '| part | outcome | seconds | limit | reason |\n'
  printf '| --- | --- | --- | --- | --- |\n'
  for part in "${parts[@]}"; do
    printf '| %s | %s | %s | %s | %s |\n' "$part" "$(outcome_of "$part")" \
      "$(seconds_of "$part")" "$(value_of "$part" limit)" \
      "$(cell "$(reason_of "$part")")"
  done
  for part in "${parts[@]}"; do markdown_part "$part"; done
}

# Replaces both files, so that a reader never sees half of one.
write_report() {
  print_json >"$report/report.json.new" &&
    mv "$report/report.json.new" "$report/report.json"
  print_markdown >"$report/report.md.new" &&
    mv "$report/report.md.new" "$report/report.md"
}
