// corrected.h - parts of ns-3 that do what their sources say (README.md says what was found).

#ifndef CORRECTED_H
#define CORRECTED_H

#include "ns3/core-module.h"
#include "ns3/internet-module.h"

#include <algorithm>

using namespace ns3;

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

// With SACK ns-3 knows what arrived, and adds a segment for each duplicate all the
// same; here a duplicate counts what it tells of. An acknowledgment with an echo is
// counted twice, and what it delivers is missing in what was under way when the
// reduction began; here it is counted once, and is not. As in RFC 6937, section 3.
class SackedPrr : public TcpPrrRecovery
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId tid = TypeId("SackedPrr").SetParent<TcpPrrRecovery>().AddConstructor<SackedPrr>();
        return tid;
    }

    Ptr<TcpRecoveryOps> Fork() override
    {
        return CopyObject<SackedPrr>(this);
    }

    void EnterRecovery(Ptr<TcpSocketState> tcb, uint32_t dupAcks, uint32_t unacked, uint32_t deliveredBytes) override
    {
        if (tcb->m_congState != TcpSocketState::CA_CWR)
        {
            TcpPrrRecovery::EnterRecovery(tcb, dupAcks, unacked, deliveredBytes);
            return;
        }
        uint32_t left = tcb->m_bytesInFlight;
        tcb->m_bytesInFlight = left + deliveredBytes;
        TcpPrrRecovery::EnterRecovery(tcb, dupAcks, unacked, 0);
        tcb->m_bytesInFlight = left;
    }

    void DoRecovery(Ptr<TcpSocketState> tcb, uint32_t deliveredBytes, bool) override
    {
        TcpPrrRecovery::DoRecovery(tcb, deliveredBytes, false);
    }
};

NS_OBJECT_ENSURE_REGISTERED(SackedPrr);

// The acknowledgment that ends a recovery covers what was sent in a round trip, of
// most of which earlier ones have told; ns-3 opens the window by all of it. Here by
// what was delivered since the acknowledgment before, as at any other.
template <class Control>
class Delivered : public Control
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId tid = TypeId("Delivered" + Control().GetName())
                                .template SetParent<Control>()
                                .template AddConstructor<Delivered<Control>>();
        return tid;
    }

    Ptr<TcpCongestionOps> Fork() override
    {
        return CopyObject<Delivered<Control>>(this);
    }

    void IncreaseWindow(Ptr<TcpSocketState> tcb, uint32_t segmentsAcked) override
    {
        uint32_t delivered = (tcb->m_lastAckedSackedBytes + tcb->m_segmentSize - 1) / tcb->m_segmentSize;
        Control::IncreaseWindow(tcb, std::min(segmentsAcked, delivered));
    }
};

#endif
