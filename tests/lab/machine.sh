#!/bin/bash
# PID 1 of one machine of the lab, in namespaces of its own: machine.sh NAME head|node ADDRESS STATE_DIR TREE CONTROLLER...
# TREE, where not empty, is what the machine has as its root; what it changes there is gone when it is switched off.
set -eu
name=$1 role=$2 address=$3 state=$4 tree=$5
shift 5
own=$state/machines/$name
shared=$state/shared

until_there() { # COMMAND...: waits for it to succeed, 2 minutes at least
    local try
    for ((try = 0; try < 2400; try++)); do
        if "$@" 2>/dev/null; then return 0; fi
        sleep 0.05
    done
    echo "gave up waiting: $*" >&2
    return 1
}

answers() { (exec 3<>"/dev/tcp/$1/$2"); }

enter_tree() {
    mkdir -p "$own/changes" "$own/tree"
    mount -t tmpfs -o mode=0755 changes "$own/changes"
    mkdir "$own/changes/upper" "$own/changes/work"
    mount -t overlay -o "lowerdir=$tree,upperdir=$own/changes/upper,workdir=$own/changes/work" overlay "$own/tree"
    mkdir -p "$own/tree/$state" "$own/tree/.before"
    mount --bind "$state" "$own/tree/$state"
    cd "$own/tree"
    pivot_root . .before
    cd /
}

mount_kernel() {
    mount -t proc proc /proc
    mount -t sysfs sysfs /sys
    mount -t tmpfs -o mode=0755 cgroup /sys/fs/cgroup
    for controller in "$@"; do
        mkdir "/sys/fs/cgroup/$controller"
        mount -t cgroup -o "$controller" cgroup "/sys/fs/cgroup/$controller"
    done
    rest_disks
}

rest_disks() { # else all machines show the host's disks, and a job that sleeps what other tests write
    cat /proc/diskstats >"$own/diskstats"
    mount --bind "$own/diskstats" /proc/diskstats
}

make_devices() {
    mount -t tmpfs -o mode=0755 dev /dev
    mknod -m 0666 /dev/null c 1 3
    mknod -m 0666 /dev/zero c 1 5
    mknod -m 0666 /dev/full c 1 7
    mknod -m 0666 /dev/random c 1 8
    mknod -m 0666 /dev/urandom c 1 9
    mknod -m 0666 /dev/tty c 5 0
    mkdir /dev/pts
    mkdir -m 1777 /dev/shm
    mount -t devpts -o newinstance,mode=0620,gid=5,ptmxmode=0666 devpts /dev/pts
    ln -s pts/ptmx /dev/ptmx
    ln -s /proc/self/fd /dev/fd
    ln -s /proc/self/fd/0 /dev/stdin
    ln -s /proc/self/fd/1 /dev/stdout
    ln -s /proc/self/fd/2 /dev/stderr
    if [ "$role" = node ]; then
        for minor in 0 1 2 3 4 5 6 7; do
            mknod -m 0666 "/dev/nvidia$minor" c 195 "$minor"
        done
    fi
}

mount_files() {
    mount -t tmpfs -o mode=0755 run /run
    mount -t tmpfs -o mode=1777 tmp /tmp
    mount --bind "$own/var" /var
    mount --bind "$own/root" /root
    mount --bind "$shared/home" /home
    mount --bind "$shared/slurm" /etc/slurm
    mount --bind "$shared/munge" /etc/munge
    mount --bind "$own/ssh" /etc/ssh
    for file in passwd group shadow hosts; do
        mount --bind "$shared/etc/$file" "/etc/$file"
    done
    if [ "$role" = node ]; then find_driver; fi
    mkdir -p /run/sshd /run/lock
    install -d -o munge -g munge /run/munge
    install -d -o slurm -g slurm /run/slurm
}

find_driver() { # makes the stand-in what the dynamic linker finds
    ldconfig -X -i -C "$own/ld.so.cache" -f "$own/ld.so.conf"
    mount --bind "$own/ld.so.cache" /etc/ld.so.cache
}

join_network() {
    ip link set lo up
    until_there test -e /sys/class/net/eth0
    ip address add "$address/24" dev eth0
    ip link set eth0 up
}

start_node() {
    mkdir -p /var/spool/slurmd
    slurmd
}

make_database() { # an empty one, made once per lab, as that takes seconds
    local kept=$state/cache/mysql
    if [ ! -d "$kept" ]; then
        rm -rf "$kept.new"
        install -d -m 0700 -o mysql -g mysql "$kept.new"
        mariadb-install-db --no-defaults --user=mysql --skip-test-db "--datadir=$kept.new"
        mv "$kept.new" "$kept"
    fi
    cp -a "$kept" /var/lib/mysql
}

start_head() {
    if [ ! -d /var/lib/mysql ]; then make_database; fi
    install -d -o mysql -g mysql /run/mysqld
    ln -s mysqld /run/mariadbd # where the clients of MariaDB 11.8.9 and later look
    mariadbd --no-defaults --user=mysql --datadir=/var/lib/mysql --skip-networking \
        --socket=/run/mysqld/mysqld.sock --pid-file=/run/mysqld/mysqld.pid \
        --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size=64M \
        --init-file="$shared/slurm/database.sql" >/var/log/mariadb.log 2>&1 &
    until_there mariadb --no-defaults --socket=/run/mysqld/mysqld.sock -e 'USE slurm_acct_db'
    slurmdbd
    until_there answers head 6819
    if [ ! -e /var/lib/accounts-loaded ]; then
        sacctmgr -i add qos high Priority=100
        sacctmgr -i load file=/etc/slurm/accounts.cfg
        touch /var/lib/accounts-loaded
    fi
    slurmctld
    install -d -o slurmrest -g slurmrest /run/slurmrest
    as_rest="setpriv --reuid slurmrest --regid slurmrest --clear-groups"
    SLURM_JWT=daemon $as_rest slurmrestd -a rest_auth/jwt 0.0.0.0:6820 \
        </dev/null >/var/log/slurmrestd-jwt.log 2>&1 &
    $as_rest slurmrestd -a rest_auth/local unix:/run/slurmrest/rest.sock \
        </dev/null >/var/log/slurmrestd-local.log 2>&1 &
}

hostname "$name"
if [ -n "$tree" ]; then enter_tree; fi
mount_kernel "$@"
if [ -n "$tree" ]; then umount -l /.before; fi # which needs /proc
make_devices
mount_files
join_network
setpriv --reuid munge --regid munge --clear-groups munged
/usr/sbin/sshd -E /var/log/sshd.log
"start_$role"
touch "$own/booted"
# Shell and reaper of orphans in one: only `wait` collects children that it never started.
while :; do
    sleep infinity &
    wait
done
