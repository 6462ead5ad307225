# A port that nobody listens on, nor on the next; used by slurm.sh and under_launcher.sh.
free_port() {
  local port
  while :; do
    port=$((20000 + RANDOM % 9000))
    (: <"/dev/tcp/127.0.0.1/$port" || : <"/dev/tcp/127.0.0.1/$((port + 1))") 2>/dev/null || break
  done
  echo "$port"
}
