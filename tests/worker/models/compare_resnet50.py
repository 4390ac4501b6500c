#!/usr/bin/env python3
"""Compares ResNet-50 with torchvision's, from the same random weights.

    bazel build //tests/worker/models:train_steps //deploy:tributary
    python3 tests/worker/models/compare_resnet50.py [--model resnet50]

Needs torch, torchvision and safetensors; takes some minutes and 3 GB of memory.
Not part of CI, whose golden files compare small networks. Checks, in float32:

- logits in evaluation: largest difference at most 1e-4;
- the losses of ten training steps with SGD and with AdamW: at most 1e-4,
  relative;
- the weights that a job has read are equal to those of the file, byte for byte;
- `tributary export` of a run that trains only the last layer: the other tensors
  are equal to those of the file, byte for byte, and torchvision loads the file
  with strict=True.

Prints each figure, and exits with 1 if one is above its limit.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import torch
import torchvision
from safetensors.torch import load_file, save_file

PROGRAMS = 'bazel-bin'
STEPS = 10
SGD = dict(lr=0.001, momentum=0.9, weight_decay=5e-5)
ADAMW = dict(lr=1e-4, weight_decay=0.05)
OPTIMIZERS = {
    'SGD': (torch.optim.SGD, SGD,
            'sgd { learning_rate: 0.001 momentum: 0.9 weight_decay: 5e-5 }'),
    'AdamW': (torch.optim.AdamW, ADAMW,
              'adamw { learning_rate: 1e-4 beta1: 0.9 beta2: 0.999 '
              'epsilon: 1e-8 weight_decay: 0.05 }'),
}
failed = False


def check(what, value, limit):
    global failed
    passed = value <= limit
    failed |= not passed
    print(f'{"ok    " if passed else "FAILED"} {what}: {value:.3g} '
          f'(limit {limit:g})', flush=True)


def make_model(name):
    """A model with random weights, and with the statistics of random inputs.

    The branches of the blocks are scaled down, as in trained networks. With
    torchvision's initial weights, which amplify rounding from block to block,
    ten steps of PyTorch in float32 and in float64 differ by some percent.
    """
    torch.manual_seed(7)
    model = getattr(torchvision.models, name)()
    norms = [module for module in model.modules()
             if isinstance(module, torch.nn.BatchNorm2d)]
    with torch.no_grad():
        for norm in norms:
            norm.bias.normal_(0, 0.1)
            norm.momentum = 1.0
        for block in model.modules():
            if isinstance(block, torchvision.models.resnet.Bottleneck):
                block.bn3.weight.uniform_(0.05, 0.15)
            elif isinstance(block, torchvision.models.resnet.BasicBlock):
                block.bn2.weight.uniform_(0.05, 0.15)
        model.train()(torch.randn(16, 3, 96, 96))
        for norm in norms:
            norm.momentum = 0.1
    return model


def groups_of(model, weight_decay):
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    return [dict(params=matrices, weight_decay=weight_decay),
            dict(params=others, weight_decay=0.0)]


def train(model, optimizer, options, batch, smoothing):
    options = dict(options)
    groups = groups_of(model, options.pop('weight_decay'))
    rule = optimizer(groups, **options)
    loss_function = torch.nn.CrossEntropyLoss(label_smoothing=smoothing)
    model.train()
    losses = []
    for _ in range(STEPS):
        rule.zero_grad()
        loss = loss_function(model(batch['input']), batch['target'].long())
        loss.backward()
        rule.step()
        losses.append(loss.item())
    return torch.tensor(losses)


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def compare_steps(options, folder, weights, batch):
    smoothing = 0.1
    spec = (f'resnet {{ preset: {options.preset} }} '
            f'label_smoothing: {smoothing}')
    for name, (optimizer, settings, text) in OPTIMIZERS.items():
        output = os.path.join(folder, name + '.safetensors')
        run(os.path.join(PROGRAMS, 'tests/worker/models/train_steps'), spec,
            text, str(STEPS), weights, os.path.join(folder, 'batch.safetensors'),
            output)
        ours = load_file(output)
        model = make_model(options.model).eval()
        if name == 'SGD':
            with torch.no_grad():
                logits = model(batch['input'])
            check('logits, largest difference',
                  (ours['logits'] - logits).abs().max().item(), 1e-4)
            check('tensors that differ after reading', sum(
                not torch.equal(ours['loaded/' + key], value)
                for key, value in model.state_dict().items()
                if not key.endswith('num_batches_tracked')), 0)
        losses = train(model, optimizer, settings, batch, smoothing)
        exact = train(make_model(options.model).double(), optimizer, settings,
                      {key: value.double() for key, value in batch.items()},
                      smoothing)
        check(f'losses of {STEPS} steps with {name}, relative',
              ((ours['losses'] - losses).abs() / losses).max().item(), 1e-4)
        print(f'       first loss {losses[0]:.6f}, last {losses[-1]:.6f}; '
              "largest relative difference of PyTorch's float32 and float64: "
              f'{((losses - exact).abs() / exact).max().item():.3g}')


def compare_export(options, folder, weights):
    tributary = os.path.join(PROGRAMS, 'deploy/tributary')
    trained = os.path.join(folder, 'run')
    exported = os.path.join(folder, 'exported')
    frozen = [name for name in ('conv1.*', 'bn1.*', 'layer*')]
    run(tributary, 'train', 'examples/resnet50.textproto', '--steps', '1',
        '--output', trained, '--workers', '1', '--set',
        f'model.resnet={{preset: {options.preset}}}', '--set', 'batch.global=2',
        '--set', 'data.random.samples=2', '--set',
        f'model.initial_weights.path={weights}', *(
            word for i, pattern in enumerate(frozen)
            for word in ('--set',
                         f'model.initial_weights.freeze[{i}]={pattern}')))
    run(tributary, 'export', trained, '--format', 'safetensors', '--output',
        exported)
    before = load_file(weights)
    after = load_file(os.path.join(exported, 'model.safetensors'))
    check('frozen tensors that differ after export', sum(
        not torch.equal(before[key], value) for key, value in after.items()
        if not key.startswith('fc.')), 0)
    model = getattr(torchvision.models, options.model)()
    model.load_state_dict(after, strict=True)
    print('ok     torchvision loads the export with strict=True')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--model', default='resnet50',
                        choices=('resnet18', 'resnet34', 'resnet50',
                                 'resnet101', 'resnet152'))
    parser.add_argument('--size', type=int, default=96)
    parser.add_argument('--samples', type=int, default=8)
    options = parser.parse_args()
    options.preset = options.model.upper().replace('RESNET', 'RESNET_')
    with tempfile.TemporaryDirectory() as folder:
        weights = os.path.join(folder, 'model.safetensors')
        save_file(make_model(options.model).state_dict(), weights)
        generator = torch.Generator().manual_seed(11)
        batch = {
            'input': torch.randn(options.samples, 3, options.size,
                                 options.size, generator=generator),
            'target': torch.randint(1000, (options.samples,),
                                    generator=generator).float()}
        save_file(batch, os.path.join(folder, 'batch.safetensors'))
        compare_steps(options, folder, weights, batch)
        compare_export(options, folder, weights)
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
