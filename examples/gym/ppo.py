"""Trains a sending window with PPO of stable-baselines3.

pip install stable-baselines3
python ppo.py
"""

import gymnasium as gym
import numpy as np
from evolve import best_window, episode, network
from stable_baselines3 import PPO


def environment() -> gym.Env:
    """Actions from -1 to 1, observations around zero, and what came before as well: what PPO is made for."""
    env = gym.make("tidegate/Window-v0", scenario=network(), high=200)
    env = gym.wrappers.RescaleAction(env, np.float32(-1), np.float32(1))
    return gym.wrappers.NormalizeObservation(gym.wrappers.FlattenObservation(env))


def main() -> None:
    """The mean reward of a step, trained and with the best fixed window."""
    env = environment()
    model = PPO("MlpPolicy", env, seed=1, n_steps=500, batch_size=100, gamma=0.9)
    model.learn(total_timesteps=50_000)
    observation, _ = env.reset(seed=1)
    total, ended = 0.0, False
    while not ended:
        action, _ = model.predict(observation, deterministic=True)
        observation, reward, _, ended, _ = env.step(action)
        total += float(reward)
    plain = gym.make("tidegate/Window-v0", scenario=network()).unwrapped
    window = best_window(plain)
    fixed = episode(plain, lambda *_: window)
    print(f"PPO {total / 100:.3f}, fixed window of {window:.0f} segments {fixed:.3f}")


if __name__ == "__main__":
    main()
