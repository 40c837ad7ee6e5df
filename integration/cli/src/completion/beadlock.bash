# Completion of beadlock for bash: the program itself names the candidates.
_beadlock() {
    local line=${COMP_LINE:0:COMP_POINT} rest word candidate breaks='' words=() last=-1 i
    # Behind the -- stands another command.
    for ((i = 1; i < COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} == -- ]]; then
            COMPREPLY=()
            declare -F _command_offset >/dev/null && _command_offset $((i + 1))
            return
        fi
    done
    # bash parts words at ':' and '=' too. Join what stands together on the line.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        rest=${line#"${line%%[![:space:]]*}"}
        word=${COMP_WORDS[i]}
        ((i < COMP_CWORD)) || word=$rest
        if ((last >= 0)) && [[ $rest == "$line" ]]; then
            words[last]+=$word
        else
            words[++last]=$word
        fi
        line=${rest#"$word"}
    done
    # What stands before the last break is not part of the word that bash completes.
    [[ $COMP_WORDBREAKS != *:* ]] || breaks+=:
    [[ $COMP_WORDBREAKS != *=* ]] || breaks+='='
    word=${words[last]}
    [[ -n $breaks ]] && word=${word%"${word##*["$breaks"]}"} || word=
    COMPREPLY=()
    # A word that is quoted already is left to bash. The program would compare its quotes with the names.
    printf -v candidate %q "${words[last]}"
    [[ -z ${words[last]} || $candidate == "${words[last]}" ]] || return
    while IFS= read -r candidate; do
        [[ -n $candidate ]] || continue
        # bash puts a candidate into the line as it is, and others may have chosen the name.
        printf -v candidate %q "$candidate"
        COMPREPLY+=("${candidate#"$word"}")
    done < <(
        _CLAP_IFS=$'\n' _CLAP_COMPLETE_INDEX=$last BEADLOCK_COMPLETE=bash beadlock -- "${words[@]}" 2>/dev/null
        echo
    )
    if ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == *[=/:] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o bashdefault -o default -F _beadlock beadlock
