"""Exercises of chapter 15, updates and schedules that it does not show: answers, stories and hints."""

from sympy import sqrt

from ...course.judge.derivation import Derivation
from ...course.judge.draws import normal, number
from ...course.judge.function import Exercise

# 1 ----------------------------------------------------------------------------------------------------------


def nesterov_step(p, u, g, eta, beta):
    u_new = beta * u + g
    ahead = beta * u_new + g
    p_new = p - eta * ahead
    return p_new, u_new


TABLES = {name: normal("D F") for name in ("p", "u", "g")}

NESTEROV_STEP = Exercise(
    nesterov_step,
    asks="Turning a description in words into an update, and keeping the right state.",
    outputs="p_new u_new",
    inputs=TABLES | {"eta": number(0.3), "beta": number(0.6)},
    stories="""
    - This is plain momentum. The step looks one update ahead: it uses β u_new + g, not u_new.
          eta * ahead → eta * u_new
    - The gradient is missing from the step: the update is made once more with the same gradient, β u_new + g.
          beta * u_new + g → beta * u_new
    - The gradient counts twice in the velocity that is looked at: one more update multiplies u_new by β.
          beta * u_new + g → u_new + g
    - The velocity is looked at as 2 β u + g. The update is made once more on the new velocity, β u_new + g.
          ahead = beta * u_new + g → ahead = 2 * beta * u + g
    - The update is made twice more. One is looked ahead, from the velocity that is kept.
          beta * u_new + g → beta * (beta * u_new + g) + g
    - The velocity that was only looked at has been kept. What is kept is the ordinary one, β u + g.
          return p_new, u_new → return p_new, ahead
    - The ordinary velocity makes the step, and the one ahead is kept: it is the other way round.
          eta * ahead → eta * u_new
          return p_new, u_new → return p_new, ahead
    - The gradient has the factor 1 − β. In this book's form, and in PyTorch's, it has the factor 1.
          u_new = beta * u + g → u_new = beta * u + (1 - beta) * g
          ahead = beta * u_new + g → ahead = beta * u_new + (1 - beta) * g
    - The gradient has the factor 1 − β in the velocity. In this book's form it has the factor 1.
          u_new = beta * u + g → u_new = beta * u + (1 - beta) * g
    - The step takes the mean of both velocities. It takes the second.
          eta * ahead → eta * (u_new + ahead) / 2
    - Both updates make a step. The first only makes the velocity; one step is made, with the one ahead.
          p - eta * ahead → p - eta * u_new - eta * ahead
    - The sign is wrong: the step goes against the velocity.
          p - eta → p + eta
    - The rate is missing from the step.
          eta * ahead → ahead
    - The rate stands in the velocity as well. It multiplies the step only.
          u_new = beta * u + g → u_new = beta * u + eta * g
    - The rate stands in the velocity and not in the step. In this book's form the velocity is made of
      gradients, and the rate multiplies the step.
          u_new = beta * u + g → u_new = beta * u + eta * g
          ahead = beta * u_new + g → ahead = beta * u_new + eta * g
          eta * ahead → ahead
    - The velocity carries the sign, and has the rate in it: this is the other form, u ← β u − η g. Here u
      is a sum of gradients, and the step subtracts η times it.
          u_new = beta * u + g → u_new = beta * u - eta * g
          ahead = beta * u_new + g → ahead = beta * u_new - eta * g
          p - eta * ahead → p + ahead
    - The velocity has not been updated.
          return p_new, u_new → return p_new, u
    - This is plain gradient descent: the velocity is not used in the step.
          eta * ahead → eta * g
    """,
    hints="""
    - First the velocity as always. It is what is returned.
    - Then the same line once more, with the same gradient, under another name.
    - The step is −η times that second velocity.
    """,
)


# 2 ----------------------------------------------------------------------------------------------------------


def wsd_sum(peak, floor, w, s, d):
    rising = peak * (w + 1) / 2
    falling = d * peak - (peak - floor) * (d + 1) / 2
    return rising + s * peak + falling


def wsd_by_floor(peak, floor, w, s, d):
    rising = peak * (w + 1) / 2
    falling = d * floor + (peak - floor) * (d - 1) / 2
    return rising + s * peak + falling


WSD_SUM = Derivation(
    wsd_sum,
    asks="Counting steps exactly at both ends of a schedule, and summing them.",
    ways=(wsd_by_floor,),
    domains={"peak": "count", "floor": "positive", "w": "count", "s": "count", "d": "count"},
    stories="""
    - These are the areas under the curve, an integral. The rates are a sum over updates: a ramp up counts
      its end and not its beginning, and so does the one down.
          peak * (w + 1) / 2 → peak * w / 2
          d * peak - (peak - floor) * (d + 1) / 2 → d * (peak + floor) / 2
    - The rise is taken as an area. Its rates are peak/w, 2 peak/w, … up to peak, and their sum is
      peak (w + 1)/2.
          peak * (w + 1) / 2 → peak * w / 2
    - The fall is taken as an area, or its first update as still at the peak and half its last. Its d rates
      begin one step below the peak and end at the floor.
          d * peak - (peak - floor) * (d + 1) / 2 → d * (peak + floor) / 2
    - The fall ends at the floor, not at 0.
          (peak - floor) → peak
    - The fall is taken to begin at the peak. Its first update is already one step below, its last at the
      floor.
          (peak - floor) * (d + 1) / 2 → (peak - floor) * (d - 1) / 2
    - It is one peak too small: the rise is taken to begin at 0, or the steady phase is one update too short.
      The first update of the rise has peak/w, its last the peak, and then s more have the peak.
          peak * (w + 1) / 2 → peak * (w - 1) / 2
    - It is one floor too small: the last update of the fall, which has the floor, is not counted, or both
      ramps are counted from where they begin. Count each phase from 1.
          peak * (w + 1) / 2 → peak * (w - 1) / 2
          (peak - floor) * (d + 1) / 2 → (peak - floor) * (d - 1) / 2
    - The steady phase is missing.
          + s * peak →
    - The rise is missing.
          return rising + s → return s
    - The fall is missing.
          s * peak + falling → s * peak
    - This is the mean of the rates. The sum is asked for.
          return rising + s * peak + falling → return (rising + s * peak + falling) / (w + s + d)
    - This is the integral divided by the number of updates. The sum of the rates is asked for.
          peak * (w + 1) / 2 → peak * w / 2
          d * peak - (peak - floor) * (d + 1) / 2 → d * (peak + floor) / 2
          return rising + s * peak + falling → return (rising + s * peak + falling) / (w + s + d)
    - The rise is taken to begin at the floor. It begins at 0.
          peak * (w + 1) / 2 → w * floor + (peak - floor) * (w + 1) / 2
    - The rise counts as if all its updates had the peak.
          peak * (w + 1) / 2 → peak * w
    - The peak counts once too often: the last update of the rise has it, the steady phase has s more, and
      the first update of the fall is below it.
          s * peak → (s + 1) * peak
    - It is one floor too large: the last update of the fall has the floor, and none comes after it.
          + falling → + falling + floor
    - A step of the fall is taken as peak − floor. There are d steps, so each is (peak − floor)/d.
          (peak - floor) * (d + 1) / 2 → (peak - floor) * d * (d + 1) / 2
    - A step of the rise is taken as the whole peak. There are w steps, so each is peak/w.
          peak * (w + 1) / 2 → peak * w * (w + 1) / 2
    - The fall is taken in steps of (peak − floor)/(d − 1), and ends below the floor. Its first update is
      already one step below the peak, so there are d steps.
          (peak - floor) * (d + 1) / 2 → (peak - floor) * d * (d + 1) / (2 * (d - 1))
    - The floor is added to every update. Only the fall knows it.
          + falling → + falling + (w + s) * floor
    """,
    hints="""
    - Three sums. The first is peak/w times 1 + 2 + … + w.
    - In the fall, update k of d has the rate peak − k (peak − floor)/d, for k = 1 … d.
    - 1 + 2 + … + d = d (d + 1)/2.
    """,
)


# 3 ----------------------------------------------------------------------------------------------------------


def rmsprop_length(eta, n, t):
    alpha = 1 - 1 / n
    weights = 1 - alpha**t
    return eta / sqrt(weights)


RMSPROP_LENGTH = Derivation(
    rmsprop_length,
    asks="A geometric sum, and what a missing correction does to the first steps.",
    domains={"eta": "positive", "n": "count", "t": "count"},
    stories="""
    - This is the step with a bias correction. RMSProp has none, so v is too small at first, and the step
      too long.
          eta / sqrt(weights) → eta
    - The root is missing: the step is divided by √v, not by v.
          sqrt(weights) → weights
    - It is upside down: v stands below the fraction line, and a small v makes a long step.
          eta / sqrt(weights) → eta * sqrt(weights)
    - This is the first step, for every t. The weights of t gradients add up to 1 − αᵗ.
          alpha**t → alpha
    - One gradient too few: after t updates v has seen t of them.
          alpha**t → alpha ** (t - 1)
    - One gradient too many: after t updates v has seen t of them.
          alpha**t → alpha ** (t + 1)
    - αᵗ is what is missing from the weights, and 1 − αᵗ what they add up to.
          1 - alpha**t → alpha**t
    - The weights add up to 1 − αᵗ: the factor 1 − α in front has been forgotten.
          1 - alpha**t → (1 - alpha**t) / (1 - alpha)
    - α is taken as 1/n. It is 1 − 1/n.
          1 - 1 / n → 1 / n
    - The newest gradient and the factor of the past were mixed: α multiplies what is old.
          1 - alpha**t → alpha * (1 - alpha**t)
    - This is the sum of the weights, which is v/g². The length of the step is asked for.
          eta / sqrt(weights) → weights
    - This is an approximation for large n: (1 − 1/n)ᵗ is only near e^(−t/n).
          alpha**t → exp(-t / n)
    - The rate is missing.
          eta / sqrt(weights) → 1 / sqrt(weights)
    - The power t stands outside: t gradients together leave αᵗ, not (1 − α)ᵗ.
          1 - alpha**t → (1 - alpha) ** t
    - The weights decay like αᵗ and do not add up linearly: this is t (1 − α).
          1 - alpha**t → t * (1 - alpha)
    """,
    hints="""
    - Write v_t as a sum over the gradients 1 … t, as for Adam. Here they are all g².
    - The weights add up to 1 − αᵗ, so √v = |g| √(1 − αᵗ).
    - |g| cancels.
    """,
)


# 4 ----------------------------------------------------------------------------------------------------------


def l2_momentum(p, eta, beta, lam):
    u_1 = lam * p
    p_1 = p - eta * u_1
    u_2 = beta * u_1 + lam * p_1
    return p_1 - eta * u_2


L2_MOMENTUM = Derivation(
    l2_momentum,
    asks="Unrolling two updates with the state carried along.",
    domains={"p": "real", "eta": "positive", "beta": "positive", "lam": "positive"},
    stories="""
    - This is decoupled decay, (1 − ηλ)² p. With the penalty λp goes through the velocity, which still holds
      the first pull in the second step.
          beta * u_1 + lam * p_1 → lam * p_1
    - Both pulls are taken at the first place. The second gradient is λ p_1.
          lam * p_1 → lam * p
    - Both parts of the second velocity are taken at p_1. What is left in it from the first step is β λ p.
          beta * u_1 + lam * p_1 → beta * lam * p_1 + lam * p_1
    - Both steps have the factor 1 + β. At the first the velocity holds one pull only, and at the second
      the older one was made at p.
          u_1 = lam * p → u_1 = (1 + beta) * lam * p
          beta * u_1 + lam * p_1 → (1 + beta) * lam * p_1
    - This is one step. Two are asked for.
          return p_1 - eta * u_2 → return p_1
    - These are three updates. Two are asked for.
          return p_1 - eta * u_2 → return p_1 - eta * u_2 - eta * (beta * u_2 + lam * (p_1 - eta * u_2))
    - This is the velocity after two steps. The parameter is asked for.
          return p_1 - eta * u_2 → return u_2
    - The second pull is missing: a penalty pulls at every place, also at p_1.
          beta * u_1 + lam * p_1 → beta * u_1
    - The first velocity enters whole. It is multiplied by β.
          beta * u_1 + lam * p_1 → u_1 + lam * p_1
    - The second step begins at p. It begins at p_1.
          return p_1 - eta * u_2 → return p - eta * u_2
    - The new gradient has the factor 1 − β. In this book's form, and in PyTorch's, it has the factor 1.
          beta * u_1 + lam * p_1 → beta * u_1 + (1 - beta) * lam * p_1
    - Both gradients have the factor 1 − β. In this book's form, and in PyTorch's, they have the factor 1.
          u_1 = lam * p → u_1 = (1 - beta) * lam * p
          beta * u_1 + lam * p_1 → beta * u_1 + (1 - beta) * lam * p_1
    - The gradient of ½ λ p² is λ p: the half goes against the 2 of the power.
          u_1 = lam * p → u_1 = lam * p / 2
          beta * u_1 + lam * p_1 → beta * u_1 + lam * p_1 / 2
    - The gradient of ½ λ p² is λ p. This is λ p², which still has its power.
          u_1 = lam * p → u_1 = lam * p**2
          beta * u_1 + lam * p_1 → beta * u_1 + lam * p_1**2
    - The penalty ½ λ p² itself stands where its gradient, λ p, belongs.
          u_1 = lam * p → u_1 = lam * p**2 / 2
          beta * u_1 + lam * p_1 → beta * u_1 + lam * p_1**2 / 2
    - The gradient of ½ λ p² is λ p, without a 2.
          u_1 = lam * p → u_1 = 2 * lam * p
          beta * u_1 + lam * p_1 → beta * u_1 + 2 * lam * p_1
    - The sign is wrong: a penalty makes p smaller.
          p_1 = p - eta * u_1 → p_1 = p + eta * u_1
          return p_1 - eta * u_2 → return p_1 + eta * u_2
    - This is the difference from decoupled decay. The parameter is asked for.
          return p_1 - eta * u_2 → return -eta * beta * u_1
    - The pull of the first step is taken against the second: β u_1 adds to it.
          return p_1 - eta * u_2 → return p_1 - eta * (lam * p_1 - beta * u_1)
    - The factor of p is right, and p itself is missing.
          return p_1 - eta * u_2 → return (p_1 - eta * u_2) / p
    - This mixes both: the decay is decoupled and goes through the velocity as well. Take it once.
          return p_1 - eta * u_2 → return (1 - eta * lam) ** 2 * p - eta * u_2
    - The effect of constant pulls, 1/(1 − β), is that after many steps. Here there are two.
          return p_1 - eta * u_2 → return p * (1 - eta * lam / (1 - beta)) ** 2
    - Each rate has been multiplied by 1/(1 − β), the effect after many steps. Here there are two.
          beta * u_1 + lam * p_1 → u_1 / (1 - beta)
    """,
    hints="""
    - With g = 0 the first velocity is λ p, and the first step is the same as with decoupled decay.
    - The second velocity is β times the first, plus λ times the new parameter.
    - Write everything as a factor of p.
    """,
)


# 5 ----------------------------------------------------------------------------------------------------------


def momentum_backward(dp_new, du_new, u, g, eta, beta):
    u_new = beta * u + g
    arrived = du_new - eta * dp_new
    deta = -(dp_new * u_new).sum()
    dbeta = (arrived * u).sum()
    return dp_new, beta * arrived, arrived, deta, dbeta


MOMENTUM_BACKWARD = Exercise(
    momentum_backward,
    asks="An update taken as a layer: a result that is used twice, and numbers that serve all entries.",
    outputs="dp du dg deta dbeta",
    inputs={name: normal("D F") for name in ("dp_new", "du_new", "u", "g")}
    | {"eta": number(0.3), "beta": number(0.6)},
    stories="""
    - du_new is not used: the new velocity is handed on to the next step, and what comes back from there is
      added to what comes back from p_new.
          arrived = du_new - eta * dp_new → arrived = -eta * dp_new
    - dp_new does not reach the velocity: p_new = p − η u_new, so u_new gets −η dp_new besides du_new.
          arrived = du_new - eta * dp_new → arrived = du_new
    - The sign of what p_new sends to the velocity is wrong: p_new = p − η u_new.
          du_new - eta * dp_new → du_new + eta * dp_new
    - The rate is missing from what p_new sends to the velocity: −η dp_new.
          du_new - eta * dp_new → du_new - dp_new
    - The rate multiplies both parts. du_new arrives at u_new itself, behind no rate.
          du_new - eta * dp_new → -eta * (dp_new + du_new)
    - dg has the factor β. In the velocity β multiplies u only.
          beta * arrived, arrived, deta → beta * arrived, beta * arrived, deta
    - The factor β is missing from du.
          beta * arrived, arrived, deta → arrived, arrived, deta
    - du and dg are exchanged: β multiplies the old velocity, and the gradient has the factor 1.
          beta * arrived, arrived, deta → arrived, beta * arrived, deta
    - dg has the factor 1 − β. In this book's form the gradient has the factor 1.
          beta * arrived, arrived, deta → beta * arrived, (1 - beta) * arrived, deta
    - deta is taken with the old velocity. What the rate multiplies is the new one, β u + g.
          -(dp_new * u_new) → -(dp_new * u)
    - deta is taken with the gradient, as in plain descent. What the rate multiplies is the new velocity.
          -(dp_new * u_new) → -(dp_new * g)
    - The sign of deta is wrong: p_new = p − η u_new.
          -(dp_new * u_new) → (dp_new * u_new)
    - deta also counts what arrived at the velocity. The rate stands in p_new only.
          -(dp_new * u_new) → ((du_new - dp_new) * u_new)
    - deta is taken with what arrived at the velocity. The rate stands in p_new, so dp_new arrives at it.
          -(dp_new * u_new) → -(arrived * u_new)
    - dbeta is taken with the new velocity. β multiplies the old one.
          (arrived * u) → (arrived * u_new)
    - dbeta is taken with the gradient. β multiplies the old velocity.
          (arrived * u) → (arrived * g)
    - dbeta counts only what came through p_new. The velocity also goes on to the next step.
          (arrived * u) → (-eta * dp_new * u)
    - dbeta counts only what came from the next step. The velocity also moves p_new.
          (arrived * u) → (du_new * u)
    - dbeta is taken with dp_new, without the rate.
          (arrived * u) → (dp_new * u)
    - deta is a mean. One rate serves all parameters, so their shares are added.
          u_new).sum() → u_new).mean()
    - dbeta is a mean. One β serves all parameters, so their shares are added.
          * u).sum() → * u).mean()
    - deta and dbeta are sums of a product of matrices. Each parameter has its own entry of u: multiply entry
      by entry, and add up.
          (dp_new * u_new) → (dp_new @ u_new.T)
          (arrived * u) → (arrived @ u.T)
    - deta is the sum of a product of matrices. Multiply entry by entry, and add up.
          (dp_new * u_new) → (dp_new @ u_new.T)
    - dbeta is the sum of a product of matrices. Multiply entry by entry, and add up.
          (arrived * u) → (arrived @ u.T)
    - deta and dbeta are means. One number serves all parameters, so their shares are added.
          u_new).sum() → u_new).mean()
          * u).sum() → * u).mean()
    - deta and dbeta have one number for each parameter. There is one rate and one β, so the shares of all
      parameters are added.
          u_new).sum() → u_new)
          * u).sum() → * u)
    - deta is not summed: there is one rate for all parameters.
          u_new).sum() → u_new)
    - dbeta is not summed: there is one β for all parameters.
          * u).sum() → * u)
    - dp counts what went through the velocity. In this step the gradient is given, so p stands in p_new only.
          return dp_new, → return dp_new + arrived,
    - du_new is added to dp. It arrives at u_new, and with a given gradient no way leads from p to u_new.
          return dp_new, → return dp_new + du_new,
    - dp has the factor −η. p stands in p_new with the factor 1.
          return dp_new, → return -eta * dp_new,
    - These are the sums over one axis. There is one rate and one β for the whole table.
          u_new).sum() → u_new).sum(axis=0)
          * u).sum() → * u).sum(axis=0)
    """,
    hints="""
    - Draw it: u and g make u_new; u_new and p make p_new; u_new also leaves the step.
    - u_new is used twice, so what arrives at it is a sum: du_new, and −η dp_new.
    - From there on u_new = β u + g has the backward of a sum and of a product with a number.
    """,
)
