"""Trains a congestion control by a small evolution strategy, and compares it with the best fixed window.

    python evolve.py

The network's rate changes in the middle of each episode, and its buffer is deep: no fixed window suits both
halves. The agent sees throughput, round-trip time and losses of the last tenth of a second, and sets the
window. Its policy has four numbers.

Evolution strategy: Salimans et al. 2017, algorithm 1, with mirrored perturbations and ranks for rewards.
"""

import gymnasium as gym
import numpy as np

import tidegate.gym

STEPS_PER_EPISODE = 100
GENERATIONS = 20
PAIRS = 6
SPREAD = 0.2
STEP = 0.2


def network(rate: float = 10.0, delay_ms: float = 20.0) -> tidegate.Scenario:
    """One flow on a link whose rate (Mbit/s) falls to a quarter after five of ten seconds."""
    scenario = tidegate.gym.dumbbell(rate=f"{rate}Mbit", delay=f"{delay_ms}ms", limit="400p", duration="10s")
    return scenario.event("5s", "bottleneck", rate=f"{rate / 4}Mbit")


def episode(env: gym.Env, window_of) -> float:
    """The mean reward of a step, where `window_of(window, observation)` is the next window in segments."""
    observation, _ = env.reset(seed=1)
    window, total = 10.0, 0.0
    for _ in range(STEPS_PER_EPISODE):
        window = float(np.clip(window_of(window, observation), 1, 1000))
        observation, reward, _, _, _ = env.step(np.array([window], np.float32))
        total += reward
    return total / STEPS_PER_EPISODE


def policy(weights: np.ndarray):
    """Multiplies the window by what round-trip time and losses say."""
    least_ms = np.inf

    def window_of(window: float, observation: np.ndarray) -> float:
        nonlocal least_ms
        _, rtt_ms, lost_ratio, _, _ = observation
        if rtt_ms == 0:
            return window
        least_ms = min(least_ms, rtt_ms)
        queueing = rtt_ms / least_ms - 1
        features = np.array([1.0, queueing, np.sqrt(queueing), 10 * lost_ratio])
        return window * float(np.exp(np.clip(0.2 * weights @ features, -0.7, 0.7)))

    return window_of


def train(env: gym.Env, seed: int = 1) -> np.ndarray:
    """The weights after all generations."""
    random = np.random.default_rng(seed)
    weights = np.zeros(4)
    for generation in range(GENERATIONS):
        noise = random.standard_normal((PAIRS, len(weights)))
        noise = np.concatenate([noise, -noise])
        rewards = np.array([episode(env, policy(weights + SPREAD * one)) for one in noise])
        # Ranks from -1/2 to 1/2: one lucky episode does not decide.
        ranks = rewards.argsort().argsort() / (len(rewards) - 1) - 0.5
        weights += STEP / SPREAD * (ranks @ noise) / len(noise)
        print(f"generation {generation + 1:2}: best {rewards.max():6.3f}, mean {rewards.mean():6.3f}")
    return weights


def best_window(env: gym.Env) -> float:
    """The best of some fixed windows, in segments."""
    return max(map(float, np.geomspace(4, 400, 15)), key=lambda window: episode(env, lambda *_: window))


def main() -> tuple[float, float]:
    """The rewards of the agent and of the best fixed window on a network that it was not trained on."""
    seen = gym.make("tidegate/Window-v0", scenario=network()).unwrapped
    weights = train(seen)
    other = gym.make("tidegate/Window-v0", scenario=network(rate=16.0, delay_ms=15.0)).unwrapped
    trained = episode(other, policy(weights))
    windows = {where: best_window(env) for where, env in (("first", seen), ("other", other))}
    fixed = {where: episode(other, lambda *_, window=window: window) for where, window in windows.items()}
    print(f"on another network: trained {trained:.3f}")
    for where, window in windows.items():
        print(f"  fixed window of {window:.0f} segments, the best on the {where} network: {fixed[where]:.3f}")
    return trained, fixed["other"]


if __name__ == "__main__":
    main()
