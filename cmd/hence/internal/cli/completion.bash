# Completion of hence for bash: source <(hence completion bash)
_hence() {
  local line=${COMP_LINE:0:COMP_POINT} words word
  read -ra words <<<"$line"                      # by spaces only: COMP_WORDS are cut at "=" and ":" as well
  [[ $line == *[[:space:]] ]] && words+=("")
  local last=${words[${#words[@]} - 1]}
  COMPREPLY=()
  while IFS=$'\t' read -r word _; do
    # Readline replaces what stands behind the last "=" or ":" only.
    [[ $last == *=* && $COMP_WORDBREAKS == *=* ]] && word=${word#"${last%"${last##*=}"}"}
    COMPREPLY+=("$word")
  done < <("${words[0]}" __complete -- "${words[@]:1}" 2>/dev/null)
}
complete -o default -F _hence hence
