// controls.cc - controls and queues of ns-3 on a dumbbell, for the tests of our own.
//
// One router on each side, a host on each side for every flow; all delay and the
// only queue that matters are on the link between the routers. Prints one line of
// JSON: throughput of each flow and of all (payload bytes that arrived after the
// warm-up), the time-weighted mean of the packets that wait for the link or are in
// transmission on it, drops, marks, the share of packets that was marked and, for
// DCTCP, what alpha was at the ends of its windows; with --series also how the
// first flow's window, alpha, rate and round trip went.
//
// Run:  controls --control=dctcp|bbr|cubic|reno --rate=50Mbps --rtt=10ms --flows=1
//                --queue=BYTES --threshold=PACKETS --sojourn=0ms --duration=S
//                --warmup=S --renew=0|1 --streams=0|1 --device=1
//                --manager=fifo|codel|fq-codel|pie --ecn=0|1 --jitter=0ms --series=0ms
//   control     reno: TcpLinuxReno
//   manager     of the queue, where there is neither threshold nor sojourn; with its
//               defaults, but for the limit, which is --queue in packets of 1500 bytes
//   ecn         whether cubic and reno, and the manager, speak ECN
//   sacked      1: PRR counts only what acknowledgments tell of (SackedPrr of
//               corrected.h; README.md says why)
//   delivered   1: windows of cubic and reno open by what is delivered (Delivered of
//               corrected.h)
//   jitter      each flow starts later by up to so much, drawn from --RngRun
//   series      every so often, from the warm-up on
//   threshold   of step marking (RED with MinTh = MaxTh = threshold, weight 1,
//               not gentle), in packets; 0: a plain FIFO
//   sojourn     instead, CoDel that marks what has waited longer: the setting of
//               ns-3's own check of DCTCP (examples/tcp/tcp-validation.cc)
//   device      packets in the device's own queue; above 1 with dynamic limits, as
//               in that check
//   renew       1: BBR with rate samples that each acknowledgment renews (class
//               RenewedBbr of corrected.h; README.md says why)
//   streams     1: each flow draws the phases of its gains from random numbers of its
//               own; 0: all of them from the same ones, as ns-3 does by default
//               (README.md says why)
//
// Settings: segments of 1448 bytes; an acknowledgment for every second segment;
// initial window 10; PRR; no time stamps, which ns-3 would measure round trips by,
// in whole milliseconds; no device queue beyond one packet, so that what waits,
// waits in the queue that is measured. The links of the hosts have 1 Gb/s and
// 1 us. Flow i starts after i * 100 ms. CUBIC without HyStart; CUBIC and Reno with
// a least time-out of 200 ms, and acknowledgments delayed by at most 40 ms.

#include "corrected.h"

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

using namespace ns3;

namespace
{
// Far from those that ns-3 hands out by itself and from the one that all BBR flows share by default (4).
const uint32_t FIRST_STREAM = 1000;
const uint32_t SEGMENT_BYTES = 1448;

double g_warmup = 0;
double g_queueIntegral = 0;
uint32_t g_queuePackets = 0;  // in the queue discipline
uint32_t g_devicePackets = 0; // in the device's own queue
uint32_t g_inTransmission = 0;
uint64_t g_sent = 0;
double g_queueSince = 0;
uint64_t g_drops = 0;
uint64_t g_marks = 0;
double g_alphaSum = 0;
uint64_t g_alphaCount = 0;
double g_alphaMin = 1;
double g_alphaMax = 0;
std::vector<uint64_t> g_received;
// Of the first flow.
double g_window = 0;
double g_alpha = 1;
double g_pacingRate = 0;
double g_pacingGain = 1;
double g_minRtt = 0;
std::string g_series[5];

void
Integrate()
{
    double now = Simulator::Now().GetSeconds();
    if (now > g_warmup)
    {
        g_queueIntegral += (g_queuePackets + g_devicePackets + g_inTransmission) * (now - std::max(g_queueSince, g_warmup));
    }
    g_queueSince = now;
}

void
OnQueue(uint32_t, uint32_t packets)
{
    Integrate();
    g_queuePackets = packets;
}

void
OnDeviceQueue(uint32_t, uint32_t packets)
{
    Integrate();
    g_devicePackets = packets;
}

void
OnTxBegin(Ptr<const Packet>)
{
    Integrate();
    g_inTransmission = 1;
}

void
OnTxEnd(Ptr<const Packet>)
{
    Integrate();
    g_inTransmission = 0;
    g_sent += Simulator::Now().GetSeconds() > g_warmup;
}

void
OnDrop(Ptr<const QueueDiscItem>)
{
    g_drops += Simulator::Now().GetSeconds() > g_warmup;
}

void
OnMark(Ptr<const QueueDiscItem>, const char*)
{
    g_marks += Simulator::Now().GetSeconds() > g_warmup;
}

void
OnAlpha(uint32_t, uint32_t, double alpha)
{
    g_alpha = alpha;
    if (Simulator::Now().GetSeconds() > g_warmup)
    {
        g_alphaSum += alpha;
        g_alphaCount++;
        g_alphaMin = std::min(g_alphaMin, alpha);
        g_alphaMax = std::max(g_alphaMax, alpha);
    }
}

void
OnReceived(uint32_t flow, Ptr<const Packet> packet, const Address&)
{
    if (Simulator::Now().GetSeconds() > g_warmup)
    {
        g_received[flow] += packet->GetSize();
    }
}

void
OnWindow(uint32_t, uint32_t bytes)
{
    g_window = bytes / double(SEGMENT_BYTES);
}

void
OnPacingRate(DataRate, DataRate rate)
{
    g_pacingRate = rate.GetBitRate();
}

void
OnPacingGain(double, double gain)
{
    g_pacingGain = gain;
}

void
OnMinRtt(Time, Time rtt)
{
    g_minRtt = rtt.GetSeconds();
}

void
Sample(Time every)
{
    if (Simulator::Now().GetSeconds() > g_warmup)
    {
        // BBR paces 1 % below its gain times what it takes for the rate of the bottleneck.
        const double values[] = {g_window,
                                 g_alpha,
                                 g_pacingRate / g_pacingGain / 0.99 / 1e6,
                                 g_minRtt * 1e3,
                                 double(g_queuePackets + g_devicePackets + g_inTransmission)};
        for (uint32_t i = 0; i < std::size(values); i++)
        {
            char text[32];
            std::snprintf(text, sizeof text, "%s%.4g", g_series[i].empty() ? "" : ", ", values[i]);
            g_series[i] += text;
        }
    }
    Simulator::Schedule(every, &Sample, every);
}

void
ConnectFirst(Ptr<Node> node)
{
    std::string socket = "/NodeList/" + std::to_string(node->GetId()) + "/$ns3::TcpL4Protocol/SocketList/0/";
    Config::ConnectWithoutContextFailSafe(socket + "CongestionWindow", MakeCallback(&OnWindow));
    Config::ConnectWithoutContextFailSafe(socket + "PacingRate", MakeCallback(&OnPacingRate));
    std::string bbr = socket + "CongestionOps/$ns3::TcpBbr/";
    Config::ConnectWithoutContextFailSafe(bbr + "PacingGain", MakeCallback(&OnPacingGain));
    Config::ConnectWithoutContextFailSafe(bbr + "MinRtt", MakeCallback(&OnMinRtt));
}

void
Connect(Ptr<Node> node, bool dctcp)
{
    if (dctcp)
    {
        Config::ConnectWithoutContextFailSafe(
            "/NodeList/" + std::to_string(node->GetId()) +
                "/$ns3::TcpL4Protocol/SocketList/0/CongestionOps/$ns3::TcpDctcp/CongestionEstimate",
            MakeCallback(&OnAlpha));
    }
}
} // namespace

int
main(int argc, char* argv[])
{
    std::string control = "dctcp";
    std::string rate = "50Mbps";
    Time rtt = MilliSeconds(10);
    uint32_t flows = 1;
    uint32_t queue = 1000000;
    uint32_t threshold = 0;
    Time sojourn;
    bool renew = false;
    bool streams = false;
    uint32_t device = 1;
    std::string manager = "fifo";
    bool ecn = false;
    bool sacked = false;
    bool delivered = false;
    Time jitter;
    Time series;
    double duration = 20;
    g_warmup = 5;
    CommandLine cmd;
    cmd.AddValue("control", "dctcp, bbr, cubic or reno", control);
    cmd.AddValue("rate", "of the link between the routers", rate);
    cmd.AddValue("rtt", "round-trip time without queues", rtt);
    cmd.AddValue("flows", "how many", flows);
    cmd.AddValue("queue", "how many bytes may wait", queue);
    cmd.AddValue("threshold", "of step marking, packets", threshold);
    cmd.AddValue("sojourn", "of marking by CoDel", sojourn);
    cmd.AddValue("device", "packets in the queue of the device", device);
    cmd.AddValue("renew", "BBR's rate samples with each acknowledgment", renew);
    cmd.AddValue("streams", "BBR's phases from random numbers of each flow's own", streams);
    cmd.AddValue("manager", "of the queue: fifo, codel, fq-codel or pie", manager);
    cmd.AddValue("ecn", "of cubic, reno and the manager", ecn);
    cmd.AddValue("sacked", "PRR counts what was acknowledged and no more", sacked);
    cmd.AddValue("delivered", "windows open by what is delivered", delivered);
    cmd.AddValue("jitter", "by how much the start of a flow is delayed at most", jitter);
    cmd.AddValue("series", "time between two values of the series", series);
    cmd.AddValue("duration", "seconds", duration);
    cmd.AddValue("warmup", "seconds", g_warmup);
    cmd.Parse(argc, argv);
    bool dctcp = control == "dctcp";
    bool bbr = control == "bbr";

    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(SEGMENT_BYTES));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(8 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(8 << 20));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(sacked ? SackedPrr::GetTypeId() : TcpPrrRecovery::GetTypeId()));
    Config::SetDefault("ns3::TcpL4Protocol::SocketType",
                       TypeIdValue(dctcp                ? TcpDctcp::GetTypeId()
                                   : bbr && renew       ? RenewedBbr::GetTypeId()
                                   : bbr                ? TcpBbr::GetTypeId()
                                   : control == "cubic" ? (delivered ? Delivered<TcpCubic>::GetTypeId()
                                                                     : TcpCubic::GetTypeId())
                                   : delivered          ? Delivered<TcpLinuxReno>::GetTypeId()
                                                        : TcpLinuxReno::GetTypeId()));
    if (!dctcp && !bbr)
    {
        Config::SetDefault("ns3::TcpCubic::HyStart", BooleanValue(false));
        Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
        Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(40)));
    }
    if (dctcp || ecn)
    {
        Config::SetDefault("ns3::TcpSocketBase::UseEcn", StringValue("On"));
    }

    NodeContainer routers(2);
    NodeContainer senders(flows);
    NodeContainer receivers(flows);
    InternetStackHelper stack;
    stack.InstallAll();

    PointToPointHelper access;
    access.SetDeviceAttribute("DataRate", StringValue("1Gbps"));
    access.SetChannelAttribute("Delay", TimeValue(MicroSeconds(1)));
    PointToPointHelper core;
    core.SetQueue("ns3::DropTailQueue", "MaxSize", QueueSizeValue(QueueSize(std::to_string(device) + "p")));
    core.SetDeviceAttribute("DataRate", StringValue(rate));
    core.SetChannelAttribute("Delay", TimeValue(rtt / 2));

    TrafficControlHelper fifo;
    fifo.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", QueueSizeValue(QueueSize("10000p")));
    TrafficControlHelper bottleneck;
    if (threshold > 0)
    {
        bottleneck.SetRootQueueDisc("ns3::RedQueueDisc",
                                    "MinTh",
                                    DoubleValue(threshold),
                                    "MaxTh",
                                    DoubleValue(threshold),
                                    "Gentle",
                                    BooleanValue(false),
                                    "QW",
                                    DoubleValue(1),
                                    "UseEcn",
                                    BooleanValue(true),
                                    "UseHardDrop",
                                    BooleanValue(false),
                                    "LinkBandwidth",
                                    StringValue(rate),
                                    "MeanPktSize",
                                    UintegerValue(1500),
                                    "MaxSize",
                                    QueueSizeValue(QueueSize(std::to_string(queue / 1500) + "p")));
    }
    else if (!sojourn.IsZero())
    {
        bottleneck.SetRootQueueDisc("ns3::CoDelQueueDisc",
                                    "CeThreshold",
                                    TimeValue(sojourn),
                                    "UseEcn",
                                    BooleanValue(true),
                                    "MaxSize",
                                    QueueSizeValue(QueueSize(std::to_string(queue / 1500) + "p")));
    }
    else if (manager != "fifo")
    {
        std::string type = manager == "codel" ? "CoDel" : manager == "pie" ? "Pie" : "FqCoDel";
        bottleneck.SetRootQueueDisc("ns3::" + type + "QueueDisc",
                                    "UseEcn",
                                    BooleanValue(ecn),
                                    "MaxSize",
                                    QueueSizeValue(QueueSize(std::to_string(queue / 1500) + "p")));
    }
    else
    {
        bottleneck.SetRootQueueDisc("ns3::FifoQueueDisc",
                                    "MaxSize",
                                    QueueSizeValue(QueueSize(std::to_string(queue) + "B")));
    }

    if (device > 1)
    {
        bottleneck.SetQueueLimits("ns3::DynamicQueueLimits", "HoldTime", StringValue("1ms"));
    }

    Ipv4AddressHelper addresses;
    NetDeviceContainer coreDevices = core.Install(routers);
    QueueDiscContainer discs = bottleneck.Install(coreDevices.Get(0));
    fifo.Install(coreDevices.Get(1));
    addresses.SetBase("10.0.0.0", "255.255.255.0");
    addresses.Assign(coreDevices);
    g_received.assign(flows, 0);
    Ptr<UniformRandomVariable> delays = CreateObject<UniformRandomVariable>();
    delays->SetStream(FIRST_STREAM - 1);
    for (uint32_t i = 0; i < flows; i++)
    {
        NetDeviceContainer left = access.Install(senders.Get(i), routers.Get(0));
        NetDeviceContainer right = access.Install(routers.Get(1), receivers.Get(i));
        fifo.Install(left);
        fifo.Install(right);
        addresses.SetBase(("10.1." + std::to_string(i) + ".0").c_str(), "255.255.255.0");
        addresses.Assign(left);
        addresses.SetBase(("10.2." + std::to_string(i) + ".0").c_str(), "255.255.255.0");
        Ipv4InterfaceContainer interfaces = addresses.Assign(right);

        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 9));
        ApplicationContainer sinks = sink.Install(receivers.Get(i));
        sinks.Get(0)->TraceConnectWithoutContext("Rx", MakeBoundCallback(&OnReceived, i));
        BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(interfaces.GetAddress(1), 9));
        bulk.SetAttribute("MaxBytes", UintegerValue(0));
        bulk.SetAttribute("SendSize", UintegerValue(SEGMENT_BYTES));
        ApplicationContainer sources = bulk.Install(senders.Get(i));
        if (streams)
        {
            // What the flow's connection, which the start of its source makes, finds as the default.
            Simulator::Schedule(MilliSeconds(100 * i), [i]() {
                Config::SetDefault("ns3::TcpBbr::Stream", UintegerValue(FIRST_STREAM + i));
            });
        }
        Time start = MilliSeconds(100 * i);
        if (!jitter.IsZero())
        {
            start += jitter * delays->GetValue(0, 1);
        }
        sources.Start(start);
        Simulator::Schedule(start + MilliSeconds(1), &Connect, senders.Get(i), dctcp);
        if (i == 0)
        {
            Simulator::Schedule(start + MilliSeconds(1), &ConnectFirst, senders.Get(0));
        }
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    Ptr<QueueDisc> disc = discs.Get(0);
    disc->TraceConnectWithoutContext("PacketsInQueue", MakeCallback(&OnQueue));
    Ptr<PointToPointNetDevice> port = DynamicCast<PointToPointNetDevice>(coreDevices.Get(0));
    port->GetQueue()->TraceConnectWithoutContext("PacketsInQueue", MakeCallback(&OnDeviceQueue));
    port->TraceConnectWithoutContext("PhyTxBegin", MakeCallback(&OnTxBegin));
    port->TraceConnectWithoutContext("PhyTxEnd", MakeCallback(&OnTxEnd));
    disc->TraceConnectWithoutContext("Drop", MakeCallback(&OnDrop));
    disc->TraceConnectWithoutContext("Mark", MakeCallback(&OnMark));

    if (!series.IsZero())
    {
        Simulator::Schedule(series, &Sample, series);
    }
    Simulator::Stop(Seconds(duration));
    Simulator::Run();
    Integrate();
    double span = duration - g_warmup;
    double all = 0;
    std::printf("{\"flows_mbps\": [");
    for (uint32_t i = 0; i < flows; i++)
    {
        double mbps = g_received[i] * 8 / span / 1e6;
        all += mbps;
        std::printf("%s%.4f", i ? ", " : "", mbps);
    }
    std::printf("], \"throughput_mbps\": %.4f, \"queue_packets\": %.4f, \"drops\": %llu, \"marks\": %llu, "
                "\"marked_share\": %.5f",
                all,
                g_queueIntegral / span,
                (unsigned long long)g_drops,
                (unsigned long long)g_marks,
                double(g_marks) / g_sent);
    if (g_alphaCount > 0)
    {
        std::printf(", \"alpha\": {\"mean\": %.5f, \"min\": %.5f, \"max\": %.5f}",
                    g_alphaSum / g_alphaCount,
                    g_alphaMin,
                    g_alphaMax);
    }
    if (!series.IsZero())
    {
        const char* names[] = {"window_segments", "alpha", "rate_mbps", "min_rtt_ms", "queue_packets"};
        for (uint32_t i = 0; i < std::size(names); i++)
        {
            std::printf("%s\"%s\": [%s]", i ? ", " : ", \"series\": {", names[i], g_series[i].c_str());
        }
        std::printf("}");
    }
    std::printf("}\n");
    Simulator::Destroy();
    return 0;
}
