
# The words of the command line, as kernos wants them: bash splits them at = and : too. The
# package bash-completion has a function for this, and not every shell has the package.
__kernos_init_completion()
{
    COMPREPLY=()
    if declare -F _get_comp_words_by_ref >/dev/null 2>&1; then
        _get_comp_words_by_ref "$@" cur prev words cword
        return
    fi
    local line=${COMP_LINE:0:COMP_POINT} i word blanks
    words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        blanks=${line%%[![:space:]]*}
        line=${line#"$blanks"}
        word=${COMP_WORDS[i]}
        if ((i == COMP_CWORD)); then
            word=$line # up to the cursor
        fi
        line=${line#"$word"}
        if ((i > 0)) && [[ -z $blanks && ($word == [=:]* || ${words[${#words[@]} - 1]} == *[=:]) ]]; then
            words[${#words[@]} - 1]+=$word
        else
            words+=("$word")
        fi
    done
    cword=$((${#words[@]} - 1))
    cur=${words[cword]}
    prev=${words[cword > 0 ? cword - 1 : 0]}
    if [[ -z $blanks && $prev == *@ ]]; then
        __kernos_files "$cur"
        return 1 # that is all
    fi
}

# The names of files behind an @, at which bash splits words as well. It replaces the @ too
# if it could stand before the name of a host.
__kernos_files()
{
    local at= name
    if shopt -q hostcomplete; then
        at=@
    fi
    while IFS= read -r name; do
        if [[ -d $name ]]; then
            name+=/
            compopt -o nospace 2>/dev/null
        fi
        COMPREPLY+=("$at$(printf %q "$name")")
    done < <(compgen -f -- "$1")
}
