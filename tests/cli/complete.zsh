# zsh -f complete.zsh FOLDER LINE...: what the completion script FOLDER/_foreshard makes of each LINE at a tab, one a
# line, in an interactive zsh of its own. Whatever the script complains of is printed too.
zmodload zsh/zpty
folder=$1
shift
print -r -- "PS1=; PS2=; unsetopt prompt_sp; setopt no_beep
fpath=($folder \$fpath); autoload -U compinit; compinit -u -D
foreshard() { print -r -- \"<\$*>\" }
print ready." >$folder/.zshrc
export TERM=dumb ZDOTDIR=$folder
zpty -b shell zsh -d -i

# wait_for PATTERN: gathers what the shell prints in $text until that matches; six seconds at most.
wait_for() {
  local part i
  text=
  for ((i = 0; i < 300; ++i)); do
    while zpty -rt shell part; do text+=$part; done
    [[ $text == ${~1} ]] && return
    sleep 0.02
  done
  print -r -- "no answer: ${(q)text}"
  exit 1
}

wait_for '*ready.*'
for line in $@; do
  zpty -w -n shell "$line"$'\t'
  sleep 0.2
  zpty -w -n shell $'\r'
  wait_for '*<*>*'
  [[ $text == *"bad option"* ]] && print -r -- "complaint: ${(q)text}"
  text=${text##*<}
  print -r -- "${text%%>*}"
done
zpty -d shell
