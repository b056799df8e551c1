# Completion of hence for fish: hence completion fish | source
function __hence_complete
    set -l words (commandline -opc) (commandline -ct)
    $words[1] __complete -- $words[2..-1] 2>/dev/null
end
function __hence_knows
    test (count (__hence_complete)) -gt 0
end
complete -c hence -n __hence_knows -f -a '(__hence_complete)'
complete -c hence -n 'not __hence_knows' -F
