// controls.cc - DCTCP and BBR of ns-3 on a dumbbell, for the tests of our own.
//
// One router on each side, a host on each side for every flow; all delay and the
// only queue that matters are on the link between the routers. Prints one line of
// JSON: throughput of each flow and of all (payload bytes that arrived after the
// warm-up), the time-weighted mean of the packets that wait for the link or are in
// transmission on it, drops, marks, the share of packets that was marked and, for
// DCTCP, what alpha was at the ends of its windows.
//
// Run:  controls --control=dctcp|bbr --rate=50Mbps --rtt=10ms --flows=1
//                --queue=BYTES --threshold=PACKETS --sojourn=0ms --duration=S
//                --warmup=S --renew=0|1 --streams=0|1 --device=1
//   threshold   of step marking (RED with MinTh = MaxTh = threshold, weight 1,
//               not gentle), in packets; 0: a plain FIFO
//   sojourn     instead, CoDel that marks what has waited longer: the setting of
//               ns-3's own check of DCTCP (examples/tcp/tcp-validation.cc)
//   device      packets in the device's own queue; above 1 with dynamic limits, as
//               in that check
//   renew       1: BBR with rate samples that each acknowledgment renews (class
//               RenewedBbr below; README.md says why)
//   streams     1: each flow draws the phases of its gains from random numbers of its
//               own; 0: all of them from the same ones, as ns-3 does by default
//               (README.md says why)
//
// Settings: segments of 1448 bytes; an acknowledgment for every second segment;
// initial window 10; PRR; no time stamps, which ns-3 would measure round trips by,
// in whole milliseconds; no device queue beyond one packet, so that what waits,
// waits in the queue that is measured. The links of the hosts have 1 Gb/s and
// 1 us. Flow i starts after i * 100 ms.

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

// ns-3 keeps the rate sample of the acknowledgment before where the newest segment
// was sent with as much delivered as the one before: what is delivered then grows,
// the interval does not, and the rate is too high by one acknowledgment. Here the
// interval ends with each acknowledgment, as in the draft (section 3.3).
class RenewedBbr : public TcpBbr
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId tid = TypeId("RenewedBbr").SetParent<TcpBbr>().AddConstructor<RenewedBbr>();
        return tid;
    }

    RenewedBbr() = default;
    RenewedBbr(const RenewedBbr&) = default;

    Ptr<TcpCongestionOps> Fork() override
    {
        return CopyObject<RenewedBbr>(this);
    }

    void CongControl(Ptr<TcpSocketState> tcb,
                     const TcpRateOps::TcpRateConnection& connection,
                     const TcpRateOps::TcpRateSample& sample) override
    {
        TcpRateOps::TcpRateSample renewed = sample;
        if (!sample.m_priorTime.IsZero() && !sample.m_interval.IsZero() && sample.m_delivered > 0)
        {
            renewed.m_ackElapsed = Simulator::Now() - sample.m_priorTime;
            renewed.m_interval = std::max(sample.m_sendElapsed, renewed.m_ackElapsed);
            renewed.m_deliveryRate = DataRate(sample.m_delivered * 8.0 / renewed.m_interval.GetSeconds());
        }
        TcpBbr::CongControl(tcb, connection, renewed);
    }
};

NS_OBJECT_ENSURE_REGISTERED(RenewedBbr);
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
    double duration = 20;
    g_warmup = 5;
    CommandLine cmd;
    cmd.AddValue("control", "dctcp or bbr", control);
    cmd.AddValue("rate", "of the link between the routers", rate);
    cmd.AddValue("rtt", "round-trip time without queues", rtt);
    cmd.AddValue("flows", "how many", flows);
    cmd.AddValue("queue", "how many bytes may wait", queue);
    cmd.AddValue("threshold", "of step marking, packets", threshold);
    cmd.AddValue("sojourn", "of marking by CoDel", sojourn);
    cmd.AddValue("device", "packets in the queue of the device", device);
    cmd.AddValue("renew", "BBR's rate samples with each acknowledgment", renew);
    cmd.AddValue("streams", "BBR's phases from random numbers of each flow's own", streams);
    cmd.AddValue("duration", "seconds", duration);
    cmd.AddValue("warmup", "seconds", g_warmup);
    cmd.Parse(argc, argv);
    bool dctcp = control == "dctcp";

    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(8 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(8 << 20));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TcpPrrRecovery::GetTypeId()));
    Config::SetDefault("ns3::TcpL4Protocol::SocketType",
                       TypeIdValue(dctcp   ? TcpDctcp::GetTypeId()
                                   : renew ? RenewedBbr::GetTypeId()
                                           : TcpBbr::GetTypeId()));
    if (dctcp)
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
        bulk.SetAttribute("SendSize", UintegerValue(1448));
        ApplicationContainer sources = bulk.Install(senders.Get(i));
        if (streams)
        {
            // What the flow's connection, which the start of its source makes, finds as the default.
            Simulator::Schedule(MilliSeconds(100 * i), [i]() {
                Config::SetDefault("ns3::TcpBbr::Stream", UintegerValue(FIRST_STREAM + i));
            });
        }
        sources.Start(MilliSeconds(100 * i));
        Simulator::Schedule(MilliSeconds(100 * i + 1), &Connect, senders.Get(i), dctcp);
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
    std::printf("}\n");
    Simulator::Destroy();
    return 0;
}
