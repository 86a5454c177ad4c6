for name in "$@"; do echo "$name: $(note)"; done
