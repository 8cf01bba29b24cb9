# Waits for the end of the gateway and kills what it has left: for the case that the gateway itself was
# killed. The gateway writes the list of its trees' process groups, the last line counts, and "end"
# means that nothing is left to do. $1 marks the environment of every process of the trees, $2 is the
# gateway's control group, or empty.
trap '' HUP INT QUIT TERM
exec 2>/dev/null
groups=
while read -r line; do groups=$line; done
[ "$groups" = end ] && exit 0

marked() {
	if command -v grep >/dev/null; then
		grep -lsaF -e "$1" /proc/[0-9]*/environ
		return
	fi
	for environ in /proc/[0-9]*/environ; do
		while IFS= read -r entry || [ -n "$entry" ]; do
			case $entry in *"$1"*) echo "$environ"; break ;; esac
		done <"$environ"
	done
}

round=0
while [ $round -lt 20 ]; do
	round=$((round + 1))
	found=
	[ -n "$2" ] && echo 1 >"$2/cgroup.kill"
	for group in $groups; do kill -s KILL -- "-$group"; done
	for environ in $(marked "$1"); do
		pid=${environ#/proc/}
		kill -s KILL "${pid%/environ}" && found=1
	done
	[ -z "$found" ] && break
done

round=0
while [ -n "$2" ] && [ -d "$2" ] && [ $round -lt 20 ]; do
	round=$((round + 1))
	rmdir "$2"/*/*/ "$2"/*/ "$2" || sleep 0.1 || sleep 1
done
