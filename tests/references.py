"""The library's mathematics in plain numpy float64, written from the equations, one neuron or one step at a time.

Nothing here imports Keras or the library. Weights come as `layer.get_weights()` gives them.
"""

import numpy as np

ACTIVATIONS = {
    None: lambda x: x,
    "linear": lambda x: x,
    "relu": lambda x: np.maximum(x, 0.0),
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "tanh": np.tanh,
    "softplus": lambda x: np.log1p(np.exp(x)),
    "srelu": lambda x: np.minimum(1.0, np.maximum(-1.0, x)),
}


def random_weights(layer, seed, deviation=0.5):
    """Normal weights, biases included, in the shapes of a layer's."""
    rng = np.random.default_rng(seed)
    return [rng.normal(0.0, deviation, w.shape).astype("float32") for w in layer.get_weights()]


def finite_differences(loss, weights, step=1e-5):
    """Central differences of a float64 scalar `loss(weights)` with respect to every single weight."""
    weights = [np.array(w, "float64") for w in weights]
    slopes = [np.zeros_like(w) for w in weights]
    for w, slope in zip(weights, slopes, strict=True):
        for index in np.ndindex(w.shape):
            here = w[index]
            w[index] = here + step
            above = loss(weights)
            w[index] = here - step
            slope[index] = (above - loss(weights)) / (2.0 * step)
            w[index] = here
    return slopes


# Layers


def dense(x, kernel, bias, activation):
    """`activation(x @ kernel + bias)`."""
    return ACTIVATIONS[activation](x @ kernel + bias)


def nmn_dense(x, signal, kernel, scale, shift, bias, activation):
    """The authors' modulated layer: gain `1 + z @ scale`, bias `bias + z @ shift`; `(N, I), (N, Z) -> (N, U)`."""
    return ACTIVATIONS[activation]((x @ kernel) * (1.0 + signal @ scale) + bias + signal @ shift)


def hyper_dense(x, signal, kernel, bias, kernel_generator, bias_generator, activation):
    """A dense layer with a kernel and a bias of each sample's own: `(N, I), (N, Z) -> (N, U)`."""
    rows = []
    for row, z in zip(x, signal, strict=True):
        own_kernel = kernel + sum(z[k] * kernel_generator[:, k] for k in range(len(z)))
        rows.append(row @ own_kernel + bias + z @ bias_generator)
    return ACTIVATIONS[activation](np.stack(rows))


def paper_neuron(x, signal, kernel, w_s, w_b, activation):
    """The paper's literal formula for one sample and one neuron: `sigma(z . (x w_s + w_b))`, x the pre-activation."""
    pre_activation = sum(kernel[i] * x[i] for i in range(len(x)))
    return ACTIVATIONS[activation](sum(signal[j] * (pre_activation * w_s[j] + w_b[j]) for j in range(len(signal))))


def gru_step(x, state, kernel, recurrent_kernel, bias):
    """One step of a GRU whose reset gate acts after the recurrent product; `(N, I), (N, H) -> (N, H)`."""
    h = state.shape[-1]
    sigmoid = ACTIVATIONS["sigmoid"]
    p, q = x @ kernel + bias, state @ recurrent_kernel
    update = sigmoid(p[..., :h] + q[..., :h])
    reset = sigmoid(p[..., h : 2 * h] + q[..., h : 2 * h])
    candidate = np.tanh(p[..., 2 * h :] + reset * q[..., 2 * h :])
    return update * state + (1.0 - update) * candidate


def nbrc_step(x, state, kernel, recurrent_kernel, bias):
    """One step of a neuromodulated bistable cell; `(N, I), (N, H) -> (N, H)`."""
    h = state.shape[-1]
    c = ACTIVATIONS["sigmoid"](x @ kernel[:, :h] + state @ recurrent_kernel[:, :h] + bias[:h])
    a = 1.0 + np.tanh(x @ kernel[:, h : 2 * h] + state @ recurrent_kernel[:, h:] + bias[h:])
    return c * state + (1.0 - c) * np.tanh(x @ kernel[:, 2 * h :] + a * state)


CELL_STEPS = {"gru": gru_step, "nbrc": nbrc_step}


# Networks


def on_circle(x, period):
    """Cosines, then sines of a periodic quantity."""
    point = np.exp(2j * np.pi * x / period)
    return np.concatenate([point.real, point.imag], axis=1)


def network_step(architecture, weights, observation, prev_action, prev_reward, state):
    """One step of a network of any kind; gives output, signal (None but for an NMN) and packed state."""
    a, left = architecture, list(weights)
    if a.observation_period is not None:
        observation = on_circle(observation, a.observation_period)
    seen, hidden = observation, state
    if a.kind == "nmn":
        seen, hidden = state[:, : observation.shape[1]], state[:, observation.shape[1] :]
    if a.action_head == "direction":
        prev_action = on_circle(prev_action, a.action_period)
    elif a.action_head == "categorical":
        prev_action = one_hot(a, prev_action)
    elif a.action_period is not None:
        prev_action = prev_action - a.action_period * np.floor(prev_action / a.action_period)
    y = np.concatenate([seen, prev_action * a.feedback_scale, prev_reward * a.reward_scale], 1)
    advanced = []
    for units in a.gru_units:
        y = CELL_STEPS[a.cell](y, hidden[:, :units], left.pop(0), left.pop(0), left.pop(0))
        hidden = hidden[:, units:]
        advanced.append(y)
    y, signal = readout(a, left, observation, y)
    remembered = [observation, *advanced] if a.kind == "nmn" else advanced
    return y, signal, np.concatenate(remembered, axis=1)


def readout(architecture, left, observation, context):
    """Output and signal (None but for an NMN) from what is seen and the last cell's state; uses up `left`."""
    a = architecture
    if a.kind == "rnn":
        while left:
            activation = None if len(left) == 2 else a.activation
            context = dense(context, left.pop(0), left.pop(0), activation)
        return context, None
    signal = context if a.kind == "film" else dense(context, left.pop(0), left.pop(0), a.signal_activation)
    layer, y = hyper_dense if a.kind == "hyper" else nmn_dense, observation
    while left:
        activation = None if len(left) == 4 else a.activation
        y = layer(y, signal, *(left.pop(0) for _ in range(4)), activation)
    return y, signal if a.kind == "nmn" else None


def one_hot(architecture, action):
    """A 1 for each dimension's choice, environment units, nothing for other numbers: `(..., sum of sizes)`."""
    found = np.zeros((*action.shape[:-1], sum(architecture.action_sizes)))
    for *where, i in np.ndindex(action.shape):
        first, size = int(architecture.action_offset[i]), architecture.action_sizes[i]
        choice = round(float(action[(*where, i)])) - first
        if 0 <= choice < size:
            found[(*where, sum(architecture.action_sizes[:i]) + choice)] = 1.0
    return found


def packed_policy(architecture, output):
    """Actor output `(..., outputs)` to the head's packed policy."""
    if architecture.action_head == "categorical":
        return output
    return np.concatenate(policy(architecture, output), axis=-1)


def log_prob(architecture, parameters, action):
    """Log-probability `(...)` of actions `(..., A)`, network units, under packed policies."""
    if architecture.action_head != "categorical":
        return gaussian_log_prob(action, *np.split(parameters, 2, axis=-1))
    parts = probabilities(architecture, parameters)
    chosen = [np.take_along_axis(p, np.int64(action[..., [i]]), axis=-1)[..., 0] for i, p in enumerate(parts)]
    return np.log(np.prod(chosen, axis=0))


def kl(architecture, parameters, new_parameters):
    """KL(old || new) `(...)` of packed policies."""
    if architecture.action_head != "categorical":
        return gaussian_kl(*np.split(parameters, 2, axis=-1), *np.split(new_parameters, 2, axis=-1))
    pairs = zip(probabilities(architecture, parameters), probabilities(architecture, new_parameters), strict=True)
    return sum((p * np.log(p / q)).sum(axis=-1) for p, q in pairs)


def probabilities(architecture, logits):
    """Of each dimension's choices, a list of `(..., size)`."""
    parts = np.split(np.float64(logits), np.cumsum(architecture.action_sizes)[:-1], axis=-1)
    return [np.exp(part) / np.exp(part).sum(axis=-1, keepdims=True) for part in parts]


def policy(architecture, output):
    """Actor output `(..., outputs)` to mean and log-variance, network units."""
    a, size = architecture, architecture.action_size
    mean, log_var = output[..., :-size], output[..., -size:] + a.log_var_offset
    if a.action_head == "direction":
        mean = np.angle(mean[..., :size] + 1j * mean[..., size:]) / np.pi
    bounds = (-np.inf if a.log_var_min is None else a.log_var_min, np.inf if a.log_var_max is None else a.log_var_max)
    return mean, np.clip(log_var, *bounds)


def environment_action(architecture, action):
    """Action `(..., A)` from network to environment units: wrapped if periodic, clipped into its bounds."""
    a = architecture
    scale, offset = np.asarray(a.action_scale or 1.0), np.asarray(a.action_offset or 0.0)
    action = action * scale + offset
    low, high = a.bounds()
    if a.action_period is not None:
        start = np.where(np.isfinite(low), low, offset - scale)
        turns = (action - start) / a.action_period
        action = start + a.action_period * (turns - np.floor(turns))
    return np.clip(action, low, high)


def network_sequence(architecture, weights, observation, prev_action, prev_reward, state, keep):
    """Iterated `network_step`, memory zeroed where `keep` is 0; gives outputs and packed states."""
    outputs, states = [], []
    for x, action, reward, kept in zip(observation, prev_action, prev_reward, keep, strict=True):
        output, _, state = network_step(architecture, weights, x, action, reward, state * kept)
        outputs.append(output)
        states.append(state)
    return np.stack(outputs), np.stack(states)


def parameter_count(architecture, outputs):
    """Weights of a network, counted by hand from the layer sizes."""
    a, total = architecture, 0
    seen = a.observation_size * (1 if a.observation_period is None else 2)
    fed_back = {"gaussian": a.action_size, "direction": 2 * a.action_size, "categorical": sum(a.action_sizes or ())}
    width = seen + fed_back[a.action_head] + 1
    for units in a.gru_units:
        total += units * (3 * (width + units + 1) if a.cell == "gru" else 3 * width + 2 * units + 2)
        width = units
    signal = width
    if a.signal_units:
        total += a.signal_units * (width + 1)
        signal = a.signal_units
    width = width if a.kind == "rnn" else seen
    for i, units in enumerate((*a.hidden_units, outputs)):
        modulated = 1 if a.shared_modulation and i < len(a.hidden_units) else units
        total += units * (width + 1)
        total += {"rnn": 0, "hyper": signal * units * (width + 1)}.get(a.kind, 2 * signal * modulated)
        width = units
    return total


# Losses


def gaussian_log_prob(action, mean, log_var):
    """Log of the product of one-dimensional normal densities over the last axis."""
    variance = np.exp(log_var)
    density = np.exp(-((action - mean) ** 2) / (2.0 * variance)) / np.sqrt(2.0 * np.pi * variance)
    return np.log(density).sum(axis=-1)


def gaussian_kl(mean, log_var, new_mean, new_log_var):
    """KL(old || new), summed over the last axis: `log(s'/s) + (s^2 + (m - m')^2) / (2 s'^2) - 1/2`."""
    deviation, new_deviation = np.exp(0.5 * log_var), np.exp(0.5 * new_log_var)
    distance = deviation**2 + (mean - new_mean) ** 2
    terms = np.log(new_deviation / deviation) + distance / (2.0 * new_deviation**2) - 0.5
    return terms.sum(axis=-1)


def penalised_policy_loss(ratio, advantage, kl, penalty, kl_target, excess_weight):
    """The paper's actor loss (Algorithm 4)."""
    excess = max(0.0, kl - 2.0 * kl_target)
    return -(ratio * advantage).mean() + penalty * kl + excess_weight * excess**2


def clipped_policy_loss(ratio, advantage, clip):
    """PPO's loss case by case: a gain beyond the clip does not count, a loss does."""
    total = 0.0
    for r, a in zip(np.ravel(ratio), np.ravel(advantage), strict=True):
        counted = min(r, 1.0 + clip) if a > 0.0 else max(r, 1.0 - clip)
        total -= counted * a
    return total / np.size(ratio)


# Returns


def discounted_sum(x, discount):
    """`sum_k x_{t+k} * prod of the discounts between`, every product multiplied out; `(T, N)` each."""
    total = np.zeros(np.shape(x))
    for t, n in np.ndindex(total.shape):
        worth = 1.0
        for k in range(t, len(x)):
            total[t, n] += worth * x[k, n]
            worth *= discount[k, n]
    return total


def episodes(ended):
    """Slices `(n, first, beyond)` of the episodes in a `(T, N)` table of endings."""
    for n in range(ended.shape[1]):
        first = 0
        for t in range(len(ended)):
            if ended[t, n] or t == len(ended) - 1:
                yield n, first, t + 1
                first = t + 1


def episode_returns(reward, ended, discount):
    """Discounted return from each step to the end of its own episode."""
    total = np.zeros(reward.shape)
    for n, first, beyond in episodes(ended):
        for t in range(first, beyond):
            worth = discount ** np.arange(beyond - t)
            total[t, n] = worth @ reward[t:beyond, n]
    return total


def episode_advantages(reward, value, next_value, ended, discount, trace):
    """`sum_k (discount trace)^k TD_{t+k}` within each episode, `TD = r + discount next_value - value`."""
    total = np.zeros(reward.shape)
    td = reward + discount * next_value - value
    for n, first, beyond in episodes(ended):
        for t in range(first, beyond):
            worth = (discount * trace) ** np.arange(beyond - t)
            total[t, n] = worth @ td[t:beyond, n]
    return total
