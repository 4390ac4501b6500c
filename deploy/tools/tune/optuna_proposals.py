"""Proposes the values of trials with a sampler of Optuna.

`tributary tune` runs this program as a child process. Each line of the standard
input is a request, and each line of the standard output its answer, both JSON.
The first request describes the search. Each later one asks for the values of a
trial; it contains all that may be known of earlier trials and has changed since
the request before. The answer depends only on the requests: each trial has a
sampler of its own, seeded with (seed + number) mod 2^32.
"""

import datetime
import json
import sys
import warnings


# System attribute of a trial: the attributes of the study that its sampler set.
STUDY_ATTRIBUTES = "tributary:study"


def error(message):
    return {"error": message}


class Proposer:
    """Keeps what is known of the trials of a study, and proposes the next ones."""

    def __init__(self, optuna, search):
        self._optuna = optuna
        self._parameters = search["parameters"]
        self._names = {p["name"] for p in self._parameters}
        self._sampler = search["sampler"]
        self._seed = search["seed"]
        self._directions = search["directions"]
        self._known = []  # By trial.

    def sampler(self, number):
        seed = (self._seed + number) % 2**32
        samplers = self._optuna.samplers
        if self._sampler == "TPE":
            return samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
        if self._sampler == "GP":
            return samplers.GPSampler(seed=seed)
        if self._sampler == "CMA_ES":
            return samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False)
        return samplers.NSGAIISampler(seed=seed)

    def distribution(self, parameter):
        distributions = self._optuna.distributions
        if "choices" in parameter:
            return distributions.CategoricalDistribution(parameter["choices"])
        if parameter["integer"]:
            return distributions.IntDistribution(
                parameter["low"], parameter["high"], log=parameter["log"], step=parameter["step"]
            )
        return distributions.FloatDistribution(
            parameter["low"], parameter["high"], log=parameter["log"], step=parameter["step"]
        )

    def frozen(self, number, trial):
        """Returns the trial as Optuna's FrozenTrial."""
        now = datetime.datetime.now()
        state = self._optuna.trial.TrialState(trial["state"])
        distributions = {
            p["name"]: self.distribution(p)
            for p in self._parameters
            if p["name"] in trial["params"]
        }
        return self._optuna.trial.FrozenTrial(
            number=number,
            trial_id=number,
            state=state,
            value=None,
            values=trial["values"],
            datetime_start=now,
            datetime_complete=now if state.is_finished() else None,
            params={
                name: distribution.to_external_repr(trial["params"][name])
                for name, distribution in distributions.items()
            },
            distributions=distributions,
            user_attrs={},
            system_attrs=trial["attributes"],
            intermediate_values={int(s): v for s, v in trial["intermediate_values"].items()},
        )

    def suggest(self, trial, parameter):
        name = parameter["name"]
        if "choices" in parameter:
            return trial.suggest_categorical(name, parameter["choices"])
        suggest = trial.suggest_int if parameter["integer"] else trial.suggest_float
        return suggest(
            name, parameter["low"], parameter["high"], log=parameter["log"], step=parameter["step"]
        )

    def propose(self, number, changes):
        for change in changes:
            known = self.frozen(change["number"], change)
            if change["number"] < len(self._known):
                self._known[change["number"]] = known
            else:
                self._known.append(known)
        storage = self._optuna.storages.InMemoryStorage()
        study = self._optuna.create_study(
            storage=storage, sampler=self.sampler(number), directions=self._directions
        )
        for known in self._known:
            storage.create_new_trial(study._study_id, template_trial=known)
            for key, value in known.system_attrs.get(STUDY_ATTRIBUTES, {}).items():
                storage.set_study_system_attr(study._study_id, key, value)
        before = dict(storage.get_study_system_attrs(study._study_id))
        trial = study.ask()
        chosen = {}
        for parameter in self._parameters:
            condition = parameter.get("when")
            if condition and chosen.get(condition["name"]) not in condition["values"]:
                continue
            chosen[parameter["name"]] = self.suggest(trial, parameter)
        frozen = storage.get_trial(trial._trial_id)
        attributes = dict(frozen.system_attrs)
        after = storage.get_study_system_attrs(study._study_id)
        changed = {key: value for key, value in after.items() if before.get(key) != value}
        if changed:
            attributes[STUDY_ATTRIBUTES] = changed
        return {
            "params": {
                name: distribution.to_internal_repr(frozen.params[name])
                for name, distribution in frozen.distributions.items()
            },
            "attributes": attributes,
        }


def open_search(search):
    """Returns a Proposer and the first answer."""
    try:
        import optuna
    except ImportError as problem:
        return None, error(f"{problem}; run `{sys.executable} -m pip install optuna`")
    packages = {"GP": ["scipy", "torch"], "CMA_ES": ["cmaes"]}.get(search["sampler"], [])
    for package in packages:
        try:
            __import__(package)
        except ImportError as problem:
            return None, error(f"{problem}; run `{sys.executable} -m pip install {package}`")
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return Proposer(optuna, search), {"optuna": optuna.__version__}


def main():
    # What libraries print must not become an answer.
    answers = sys.stdout
    sys.stdout = sys.stderr
    proposer = None
    for line in sys.stdin:
        request = json.loads(line)
        if proposer is None:
            proposer, answer = open_search(request)
        else:
            try:
                answer = proposer.propose(request["number"], request["changes"])
            except Exception as problem:  # pylint: disable=broad-except
                answer = error(f"{type(problem).__name__}: {problem}")
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        if "error" in answer:
            return


if __name__ == "__main__":
    main()
