# s5.tcl - peer scenario S5 for ns-2: overload on the GFC-2 network, FIFO or DRR.
#
# Core chain R1..R7: 50, 100, 50, 150, 150, 50 Mb/s; all other links 150 Mb/s; every
# link 5 ms. 22 UDP flows of 100 Mb/s, 1000-byte packets, each with its own source
# host and edge router before the core and its own edge router and sink host
# behind it. Queues hold 100 packets. Flow i starts i/22 of a packet interval
# (80 us) after time 0, so that the flows are not in step; 4.5 s.
#   queue=fifo  drop-tail everywhere
#   queue=drr   DRR on the core links, one queue per flow (ns-2's DRR tells flows
#               apart by source host), quantum 1000 bytes, 100000 bytes per link
#               for all flows together; the oldest packet of the longest queue is
#               dropped. Other links carry one flow each and stay drop-tail.
# Measures wall-clock time per packet-hop; how to run and what is printed: see
# common.tcl. Here throughput counts whole 1000-byte packets.
source [file join [file dirname [info script]] common.tcl]
new-simulator 4.5

set flowList {
    A1 1 6  A2 2 6  A3 3 6
    B1 1 7  B2 2 7  B3 4 7
    C1 5 6  C2 5 6  C3 5 6
    D 1 2
    E1 2 3  E2 2 3
    F 3 4
    G1 6 7  G2 6 7  G3 6 7  G4 6 7  G5 6 7  G6 6 7  G7 6 7
    H1 4 5  H2 4 5
}
set coreMbps {50 100 50 150 150 50}

# The bucket ns-2's DRR puts a source node into (its id is its address).
set buckets 256
proc drr-bucket {id} {
    global buckets
    return [expr {(($id + ($id >> 8) + ~($id >> 4)) % ((2 << 23) - 1) + 1) % $buckets}]
}

# Source hosts first; a node whose bucket is taken is left unused.
set flows 0
foreach {name enter leave} $flowList {
    while 1 {
        set node [$ns node]
        set bucket [drr-bucket [$node id]]
        if {![info exists taken($bucket)]} break
    }
    set taken($bucket) 1
    set source($flows) $node
    incr flows
}
for {set i 1} {$i <= 7} {incr i} { set core($i) [$ns node] }

Queue set limit_ 100
Queue/DRR set buckets_ $buckets
Queue/DRR set blimit_ 100000
Queue/DRR set quantum_ 1000
Queue/DRR set mask_ 0
switch $opt(queue) {
    fifo { set coreQueue DropTail }
    drr { set coreQueue DRR }
    default { puts stderr "queue must be fifo or drr"; exit 2 }
}
for {set i 1} {$i < 7} {incr i} {
    $ns duplex-link $core($i) $core([expr {$i + 1}]) [lindex $coreMbps [expr {$i - 1}]]Mb 5ms $coreQueue
}

set packet 1000
set rate 100e6
set i 0
foreach {name enter leave} $flowList {
    set edgeIn [$ns node]
    set edgeOut [$ns node]
    set host [$ns node]
    $ns duplex-link $source($i) $edgeIn 150Mb 5ms DropTail
    $ns duplex-link $edgeIn $core($enter) 150Mb 5ms DropTail
    $ns duplex-link $core($leave) $edgeOut 150Mb 5ms DropTail
    $ns duplex-link $edgeOut $host 150Mb 5ms DropTail
    set udp [new Agent/UDP]
    $udp set packetSize_ $packet
    $udp set fid_ $i
    set sink($i) [new Agent/LossMonitor]
    $ns attach-agent $source($i) $udp
    $ns attach-agent $host $sink($i)
    $ns connect $udp $sink($i)
    set cbr [new Application/Traffic/CBR]
    $cbr set packetSize_ $packet
    $cbr set rate_ $rate
    $cbr set random_ 0
    $cbr attach-agent $udp
    $ns at [expr {double($i) / $flows * $packet * 8 / $rate}] "$cbr start"
    incr i
}

proc received-bits {} {
    global sink
    set bytes 0.0
    foreach i [array names sink] { set bytes [expr {$bytes + [$sink($i) set bytes_]}] }
    return [expr {$bytes * 8}]
}
simulate "s5-$opt(queue)" received-bits
