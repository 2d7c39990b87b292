#!/usr/bin/env bash
# What try_deb.sh does inside: the life of the package, from installation to purge. try_deb_inside.sh chroot|booted
set -euo pipefail
mode=$1
here=/srv/try
unit=tidegate-gateway.service
closing=tidegate-gateway-close.service
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

# Says that a claim holds, or shows why not and ends.
holds() {
    local claim=$1 said
    shift
    if said=$("$@" 2>&1); then echo "ok: $claim"; else
        echo "NOT SO: $claim ($*)"$'\n'"$said" >&2
        exit 1
    fi
}
not() { ! "$@"; }
is() { [ "$1" = "$2" ] || { echo "'$1' and not '$2'"; return 1; }; }
says() {
    local what=$1 said
    shift
    said=$("$@" 2>&1) || true
    [[ $said == *"$what"* ]] || { echo "it says: $said"; return 1; }
}
fails_saying() { not "${@:2}" > /dev/null 2>&1 && says "$@"; }
until_so() { for _ in $(seq 50); do if "$@" > /dev/null 2>&1; then return; fi; sleep 0.1; done; "$@"; }
mode_of() { stat -c '%A %U:%G' "$1"; }
package() { dpkg-query -W -f '${db:Status-Abbrev}${Version}' tidegate-gateway; }
# All files but those that change by themselves, and what tries.
files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /var/tmp -o -path /var/log -o -path /var/cache \
        -o -path /var/lib/systemd -o -path "$here" \) -prune -o -print | grep -vE '^/var/lib/dpkg/(.*-old|lock.*|triggers/Lock)$' | sort
}
status_of() { systemctl show "$unit" -p "$1" --value; }
device() { ip -o link show tidegate0; }
index() { device | cut -d: -f1; }
blackholes() { { ip -4 route; ip -6 route; } | grep -c blackhole || true; }

files > $here/before
holds "it installs" dpkg -i $here/1.deb
holds "its files are those of the package" dpkg --verify tidegate-gateway
holds "the user is there, and cannot log in" says ":/nonexistent:/usr/sbin/nologin" getent passwd tidegate
holds "others do not see into /etc/tidegate" is "$(mode_of /etc/tidegate)" "drwxr-x--- root:tidegate"
for one in $unit $closing; do
    holds "$one is not enabled" is "$(systemctl is-enabled "$one" 2> /dev/null)" disabled
done
for name in tidegate-gateway tidegatectl; do
    holds "$name has a manual page" gzip -t /usr/share/man/man8/$name.8.gz
    holds "$name completes in bash" bash -c ". /usr/share/bash-completion/completions/$name && complete -p $name"
done

# The example that it shows, first as it is and then with a key.
tidegate-gateway explain | sed -n '/^\[gateway\]/,/^rate/p' > /etc/tidegate/gateway.toml
holds "the example without a key is refused, with file and key" fails_saying "/etc/tidegate/gateway.toml" tidegate-gateway check
other=$(cd /tmp && tidegatectl keygen other && rm other)
sed -i "s|^public_key = .*|public_key = \"$other\"|" /etc/tidegate/gateway.toml
holds "a key that is missing is said" fails_saying "tidegatectl keygen" tidegate-gateway check
tidegatectl keygen /etc/tidegate/key > /dev/null
chown tidegate /etc/tidegate/key
holds "the example is right" says "is right: 1 site (b)" tidegate-gateway check
chmod 644 /etc/tidegate/key
holds "a key that others may read is refused" fails_saying "may be read by others" tidegate-gateway check
chmod 600 /etc/tidegate/key
holds "the daemon's user reads the key" runuser -u tidegate -- cat /etc/tidegate/key
holds "others do not read the key" not runuser -u nobody -- cat /etc/tidegate/key
holds "others do not read the configuration" not runuser -u nobody -- cat /etc/tidegate/gateway.toml
kept=$(sha256sum /etc/tidegate/*)

if [ "$mode" = chroot ]; then
    ip link set lo up
    # What root makes for the daemon's user keeps root's group.
    group=root
    start() {
        tidegate-gateway run > $here/log 2>&1 &
        daemon=$!
    }
    gone() { kill -TERM "$daemon" && wait "$daemon"; }
    start
    pid() { echo $daemon; }
else
    group=tidegate
    holds "systemd starts it, and hears that it is ready" systemctl enable --now $unit
    holds "what closes before there is a network is enabled with it" is "$(systemctl is-enabled $closing)" enabled
    pid() { status_of MainPID; }
fi
holds "it answers" until_so says "b     down" tidegatectl status
holds "the status page is there" bash -c 'exec 3<> /dev/tcp/127.0.0.1/9586; printf "GET / HTTP/1.1\r\nHost: 127.0.0.1:9586\r\n\r\n" >&3; head -1 <&3 | grep -q "200 OK"'
holds "it is tidegate" says "tidegate" stat -c %U "/proc/$(pid)"
holds "it has no capability" says $'CapPrm:\t0000000000000000\nCapEff:\t0000000000000000' cat "/proc/$(pid)/status"
holds "the socket is its own" is "$(mode_of /run/tidegate/gateway.sock)" "srw------- tidegate:$group"
holds "its state is its own" until_so test -s /var/lib/tidegate/gateway.json
holds "others do not see into the state" is "$(mode_of /var/lib/tidegate)" "drwx------ tidegate:$group"
holds "there is a device, and behind it routes that drop" device
holds "one for each network" is "$(blackholes)" 2

if [ "$mode" = booted ]; then
    holds "device and sockets are in the store" is "$(status_of NFileDescriptorStore)" 3
    echo "   $(systemd-analyze security --no-pager --threshold=25 $unit | tail -1)"
    before=$(pid) number=$(index)
    holds "the watchdog is content" bash -c "sleep 12; [ \$(systemctl show $unit -p MainPID --value) = $before ]"
    kill -9 "$before"
    sleep 1
    holds "killed, it is back" until_so says "b     down" tidegatectl status
    holds "as another process" not is "$(pid)" "$before"
    holds "with the same device" is "$(index)" "$number"
    before=$(pid)
    echo "flows = many" >> /etc/tidegate/gateway.toml
    holds "a wrong file is not loaded, and systemctl says so" not systemctl reload $unit
    holds "the journal says where" says "gateway.toml:" journalctl -u $unit --no-pager
    sed -i '$d' /etc/tidegate/gateway.toml
    holds "a right one is" systemctl reload $unit
    holds "by the same process" is "$(pid)" "$before"
fi

before=$(pid) number=$(index)
holds "it is upgraded" dpkg -i $here/2.deb
holds "to the second" says "ii 0" package
holds "configuration and key are as they were" is "$(sha256sum /etc/tidegate/*)" "$kept"
holds "nobody sees more of them" is "$(mode_of /etc/tidegate) $(mode_of /etc/tidegate/key)" "drwxr-x--- root:tidegate -rw------- tidegate:root"
holds "the device is the same" is "$(index)" "$number"
holds "a daemon answers" until_so says "b     down" tidegatectl status
if [ "$mode" = chroot ]; then
    holds "it is the old one, for without systemd scripts leave it to who started it" kill -0 "$before"
    gone || { cat $here/log; exit 1; }
    holds "the device went with it" not device
    holds "the routes that drop did not" is "$(blackholes)" 2
    start
    holds "the new one answers" until_so says "b     down" tidegatectl status
    gone || { cat $here/log; exit 1; }
    holds "the way out is open" says "open: " tidegate-gateway open
else
    holds "it is a new one" not is "$(pid)" "$before"
    holds "with the store of the old" is "$(status_of NFileDescriptorStore)" 3
    holds "it is enabled as before" is "$(systemctl is-enabled $unit)" enabled
    systemctl stop $unit
    holds "one that was stopped" dpkg -i $here/2.deb
    holds "stays stopped" not systemctl is-active $unit
    # As it is while a machine starts, or when the daemon cannot.
    holds "the way out is open" says "open: " tidegate-gateway open
    holds "and says if it was" says "none of 2 networks was closed" tidegate-gateway open
    holds "systemd closes it" systemctl restart $closing
    holds "for each network" is "$(blackholes)" 2
    mv /etc/tidegate/gateway.toml $here/aside
    tidegate-gateway open > /dev/null 2>&1 || true
    holds "what the daemon had counts where there is no file" is "$(blackholes)" 0
    holds "also where systemd closes it, which says that it failed" not systemctl restart $closing
    holds "for each network that was" is "$(blackholes)" 2
    mv $here/aside /etc/tidegate/gateway.toml
    # Who sets up links takes away what it does not know, unless it is told not to.
    ip link add outside type veth peer name beyond
    ip link set beyond up
    printf '[Match]\nName=outside\n[Network]\nAddress=192.0.2.1/24\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n' > /etc/systemd/network/outside.network
    systemctl start systemd-networkd
    holds "networkd has set up a link" until_so says 192.0.2.1 ip address show dev outside
    holds "and is done" until_so grep -q ADMIN_STATE=configured "/run/systemd/netif/links/$(cat /sys/class/net/outside/ifindex)"
    holds "it leaves the routes that drop" is "$(blackholes)" 2
    systemctl stop systemd-networkd.socket systemd-networkd
    ip link del outside
    rm /etc/systemd/network/outside.network
    systemctl start $unit
fi

holds "it is removed" dpkg -r tidegate-gateway
holds "the program is gone" not test -e /usr/bin/tidegate-gateway -o -e /usr/bin/tidegatectl
holds "no daemon, no device" not device
holds "no route that drops" is "$(blackholes)" 0
holds "configuration and key stay" is "$(sha256sum /etc/tidegate/*)" "$kept"
holds "others still do not read them" is "$(mode_of /etc/tidegate) $(mode_of /etc/tidegate/key)" "drwxr-x--- root:tidegate -rw------- tidegate:root"
holds "it is installed again" dpkg -i $here/2.deb
holds "and takes what is there" says "is right: 1 site (b)" tidegate-gateway check
[ "$mode" = chroot ] || holds "enabled as it was" is "$(systemctl is-enabled $unit $closing | sort -u)" enabled
holds "it is purged" dpkg -P tidegate-gateway
[ "$mode" = chroot ] || holds "systemd knows it no more" is "$(status_of LoadState)" not-found

# By hand there was no systemd that takes away what it made below /run.
[ "$mode" = booted ] || rm -r /run/tidegate
left() { { find / -xdev -iname '*tidegate*'; find /run -iname '*tidegate*'; } | grep -v "^$here" || true; }
holds "no file has its name" is "$(left)" ""
files > $here/after
# `systemd-sysusers` keeps copies of the lists of users.
more=$(comm -13 $here/before $here/after | grep -vE '^/etc/((passwd|group|shadow|gshadow)-|\.pwd\.lock)$' || true)
holds "there are no files but those before it" is "$more" ""
holds "none of those is missing" is "$(comm -23 $here/before $here/after)" ""
named=$(grep -rIl tidegate /etc /var/lib/systemd /var/lib/dpkg /usr/lib/systemd /usr/lib/sysusers.d 2> /dev/null | grep -vE '^/etc/(passwd|group|shadow|gshadow)-?$|-old$' || true)
holds "only the lists of users name it" is "$named" ""
holds "no user owns a file" is "$(find / -xdev -user tidegate -not -path "$here/*" 2> /dev/null)" ""
