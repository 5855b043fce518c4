"""Ranks that wait for one another behind ``pre_exec``: by PMI-1, which their launch speaks.

Each connects to PMI_PORT as a program of its own, and leaves it before the task's program begins,
which finds PMI as if nobody had been there. A rank whose commands have failed says so before it
takes part, so that no rank of its task goes on.
"""

from __future__ import annotations

# $1: the status of the rank's commands. Returns that of the first rank's that have failed.
SYNC = r"""
yod_together() {
trap - EXIT
yod_meet "$1" && return
[ "$yod_failed" ] || { yod_failed=1; echo 'pre_exec_sync: the ranks have not met' >&2; }
return "$yod_failed"
}
yod_meet() {
local said at kvs
yod_failed=
exec {at}<>"/dev/tcp/${PMI_PORT%:*}/${PMI_PORT##*:}" || return
printf 'cmd=initack pmiid=%s\ncmd=init pmi_version=1 pmi_subversion=1\ncmd=get_my_kvsname\n' \
"$PMI_ID" >&"$at"
until [ "${said%% *}" = cmd=my_kvsname ]; do read -r said <&"$at" || return; done
kvs=${said##*kvsname=}; kvs=${kvs%% *}
if [ "$1" != 0 ]; then
printf 'cmd=put kvsname=%s key=pre_exec value=%s.%s\n' "$kvs" "$PMI_ID" "$1" >&"$at"
read -r said <&"$at" || return
fi
printf 'cmd=barrier_in\n' >&"$at"
read -r said <&"$at" && [ "${said%% rc=0*}" = cmd=barrier_out ] || return
printf 'cmd=get kvsname=%s key=pre_exec\ncmd=finalize\n' "$kvs" >&"$at"
read -r said <&"$at" || return
case $said in *" rc=0 "*)
said=${said##*value=}
yod_failed=${said#*.}
[ "$1" != 0 ] || echo "pre_exec_sync: pre_exec of rank ${said%.*} has failed" >&2
return 1
esac
read -r said <&"$at"
exec {at}>&-
}
trap 'yod_code=$?; yod_together "$yod_code"; exit "$yod_code"' EXIT
""".strip()
MET = "yod_together 0 || exit"
