# Completion of hence for zsh, after compinit: source <(hence completion zsh)
_hence() {
  local -a found
  local word help
  while IFS=$'\t' read -r word help; do
    found+=("${word//:/\\:}:$help")
  done < <("${words[1]}" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( ${#found} )); then
    _describe hence found
  else
    _files
  fi
}
compdef _hence hence
