#!/bin/bash
# Process 1 of a lab machine. QEMU's fw_cfg says who this machine is, so all machines share one root disk.
# Lines on the console that start with "collie-lab:" are read by the controller.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
say() { echo "collie-lab: $*" >/dev/console; }

# A shell that ends as process 1 panics the kernel, and the panic hides the reason: name it, then wait to be stopped.
fail() {
    say "failed: $*"
    while :; do sleep 60; done
}

mountpoint -q /proc || mount -t proc proc /proc
mountpoint -q /sys || mount -t sysfs sysfs /sys
mountpoint -q /dev || mount -t devtmpfs devtmpfs /dev
mountpoint -q /run || mount -t tmpfs -o mode=0755 tmpfs /run
mkdir -p /dev/pts /dev/shm /run/sshd /run/lock
mount -t devpts -o gid=5,mode=620 devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
say "init"

# QEMU's emulator keeps what it has translated of each page of memory until that page is overwritten, and looks through it at
# every write to the page. The programs of the initial RAM disk leave tens of thousands of translations in free pages, which
# packet buffers then only partly overwrite, for hours. A device overwrites pages whole: the cache of the disk's first blocks
# takes the same kind of pages as the RAM disk and the packets do, and is given back.
dd if=/dev/vda of=/dev/null bs=256k count=384 status=none && blockdev --flushbufs /dev/vda || fail "the disk cannot be read"

modprobe -a qemu_fw_cfg virtio_net virtio_rng || fail "modules for fw_cfg and virtio are missing"
config=/sys/firmware/qemu_fw_cfg/by_name/opt/collie
value() { cat "$config/$1/raw" 2>/dev/null; }
name=$(value name)
[ -n "$name" ] || fail "QEMU gave no name through fw_cfg"

echo "$name" >/etc/hostname
hostname "$name"
{
    echo "127.0.0.1 localhost"
    value hosts
} >/etc/hosts

# Found by their addresses, because the order in which the kernel finds the cards is not a contract.
card() {
    local path
    for path in /sys/class/net/*; do
        [ "$(cat "$path/address")" = "$1" ] && basename "$path"
    done
}
management=$(card "$(value management_mac)")
[ -n "$management" ] || fail "a network card is missing"
ip link set lo up
ip link set "$management" up
ip address add 10.0.2.15/24 dev "$management"

# Thousands of queue pairs pin memory and open descriptors; sessions inherit these limits from sshd.
ulimit -l unlimited -n 1048576 -u unlimited -s 8192
modprobe -a rdma_rxe ib_uverbs rdma_ucm || fail "modules for RDMA are missing"

# After 6.1 rdma_rxe answers from threads. Soft interrupts, where packets arrive, come before any thread: a machine that
# is sent more than it can answer would do nothing but receive, and its agent would not be heard for seconds. In a thread
# of its own receiving takes its turn. (Where rdma_rxe is itself a soft interrupt, the two are one.)
case $(uname -r) in 6.1.*) works_in_threads= ;; *) works_in_threads=1 ;; esac

# Each card of the data network, as MAC=ADDRESS, carries a RoCE device. Where there are several, all are in one network:
# each answers for its own address only, names no other when it asks (a reply to a ping leaves by the first card, with the
# address of the second, and would tie that to the wrong card), and takes what comes from another of this machine's.
read -r -a cards <<<"$(value data)"
for number in "${!cards[@]}"; do
    data=$(card "${cards[$number]%%=*}")
    [ -n "$data" ] || fail "a network card is missing"
    if [ "${#cards[@]}" -gt 1 ]; then
        echo 1 >"/proc/sys/net/ipv4/conf/$data/arp_ignore"
        echo 2 >"/proc/sys/net/ipv4/conf/$data/arp_announce"
        echo 1 >"/proc/sys/net/ipv4/conf/$data/accept_local"
    fi
    if [ -n "$works_in_threads" ]; then
        echo 1 >"/sys/class/net/$data/threaded"
        renice -n 10 -p $(pgrep "napi/$data-") >/dev/null
    fi
    ip link set "$data" mtu 4200 up || fail "the data card refused an MTU of 4200"
    ip address add "${cards[$number]#*=}" dev "$data"
    rdma link add "rxe$number" type rxe netdev "$data" || fail "rxe$number was not created on $data"
done

mkdir -p -m 0700 /root/.ssh
value authorized_key >/root/.ssh/authorized_keys
rm -f /etc/ssh/ssh_host_*
(umask 077 && value host_key >/etc/ssh/ssh_host_ed25519_key)
chmod 0600 /root/.ssh/authorized_keys /etc/ssh/ssh_host_ed25519_key
cat >/etc/ssh/sshd_config <<'CONFIG'
HostKey /etc/ssh/ssh_host_ed25519_key
AuthenticationMethods publickey
PermitRootLogin prohibit-password
UsePAM no
UseDNS no
MaxStartups 200
MaxSessions 200
SetEnv PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8
Subsystem sftp internal-sftp
CONFIG
# Newer servers punish an address that connects without logging in, and every client here has the same address.
sshd -t -o PerSourcePenalties=no 2>/dev/null && echo "PerSourcePenalties no" >>/etc/ssh/sshd_config
/usr/sbin/sshd -E /var/log/sshd.log || fail "sshd did not start: $(tail -n 1 /var/log/sshd.log)"
say "ready"

# Process 1 inherits every orphan; bash reaps them while it waits.
while :; do
    sleep 3600 &
    wait $!
done
