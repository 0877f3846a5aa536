#!/usr/bin/env python3
"""Runs an exported training step with XLA on the CPU, data-parallel over N host devices, and prints its step time as JSON.

    python benches/jax_compare.py step.mlir [--inputs step.safetensors] [--devices 4] [--steps 8] [--batch 157,158]

The file is the one that `shardwright compile` reads. Batch arguments (by default those that are not donated) are cut along their
first dimension over the devices, everything else is replicated, and XLA's partitioner adds the reductions. Arguments that are not
in the inputs are zeros, as for `shardwright run`; donated arguments are replaced by the results they are aliased with.
"""
import argparse
import json
import os
import statistics
import sys
import time

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("model")
parser.add_argument("--inputs")
parser.add_argument("--devices", type=int, default=4)
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--batch", help="numbers of the batch arguments, with commas between")
options = parser.parse_args()

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + f" --xla_force_host_platform_device_count={options.devices}"
os.environ["JAX_PLATFORMS"] = "cpu"
try:
    import jax
    import numpy as np
    from jax._src.interpreters import mlir as jax_mlir
    from jax.sharding import NamedSharding, PartitionSpec
    from jaxlib import _jax
    from jaxlib.mlir import ir
except ImportError as error:
    sys.exit(f"jax_compare: needs python with jax, numpy and safetensors: {error}")

DTYPES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i1": "bool"}
DTYPES |= {f"{p}{n}": f"{q}int{n}" for p, q in (("i", ""), ("ui", "u")) for n in (8, 16, 32, 64)}


def main():
    mesh = jax.make_mesh((options.devices,), ("data",))
    whole = NamedSharding(mesh, PartitionSpec())
    cut = NamedSharding(mesh, PartitionSpec("data"))
    context = jax_mlir.make_ir_context()
    with context, ir.Location.unknown():
        with open(options.model) as file:
            module = ir.Module.parse(file.read())
        step = next(op for op in module.body.operations if op.attributes["sym_name"].value == "main")
        types = [(tuple(t.shape), DTYPES[str(t.element_type)]) for t in map(ir.RankedTensorType, step.type.inputs)]
        results = [tuple(t.shape) for t in map(ir.RankedTensorType, step.type.results)]
        attributes = [dict((a.name, a.attr) for a in d) for d in map(named, step.arg_attrs)]
        state = {int(a["tf.aliasing_output"]): i for i, a in enumerate(attributes) if "tf.aliasing_output" in a}
        if options.batch:
            batch = {int(i) for i in options.batch.split(",")}
        else:
            batch = {i for i in range(len(types)) if i not in state.values() and types[i][0]}
        batch = {i for i in batch if types[i][0] and types[i][0][0] % options.devices == 0}
        replicated = ir.StringAttr.get("{replicated}")
        tile = lambda rank: ir.StringAttr.get("{devices=[%s]<=[%d]}" % (",".join([str(options.devices)] + ["1"] * (rank - 1)), options.devices))
        step.arg_attrs = ir.ArrayAttr.get(
            [ir.DictAttr.get(a | {"mhlo.sharding": tile(len(types[i][0])) if i in batch else replicated}) for i, a in enumerate(attributes)])
        step.attributes["res_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get({"mhlo.sharding": replicated}) for _ in results])
        module.operation.attributes["mhlo.num_partitions"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), options.devices)
        text = str(module)

    compile_options = _jax.CompileOptions()
    build = compile_options.executable_build_options
    build.num_replicas, build.num_partitions, build.use_spmd_partitioning = 1, options.devices, True
    build.device_assignment = _jax.DeviceAssignment.create(np.arange(options.devices).reshape(1, -1))
    compile_options.num_replicas, compile_options.num_partitions = 1, options.devices
    began = time.perf_counter()
    executable = jax.devices()[0].client.compile_and_load(text, list(mesh.devices.flat), compile_options)
    compiling = time.perf_counter() - began

    given = {}
    if options.inputs:
        from safetensors.numpy import load_file
        given = load_file(options.inputs)
    arguments = []
    for i, (shape, dtype) in enumerate(types):
        value = given.get(f"arg{i}", np.zeros(shape, dtype))
        arguments.append(jax.device_put(value, cut if i in batch else whole))

    seconds, losses = [], []
    scalars = [k for k, shape in enumerate(results) if not shape and k not in state]
    for _ in range(options.steps):
        began = time.perf_counter()
        pieces = executable.execute_sharded(arguments).disassemble_into_single_device_arrays()
        for piece in pieces:
            jax.block_until_ready(piece)
        seconds.append(time.perf_counter() - began)
        for k, piece in enumerate(pieces):
            if k in state:
                arguments[state[k]] = jax.make_array_from_single_device_arrays(results[k], whole, piece)
        losses.append([float(pieces[k][0]) for k in scalars])
    print(json.dumps({
        "model": os.path.basename(options.model),
        "devices": options.devices,
        "compile_seconds": round(compiling, 3),
        # The first step warms caches and pools.
        "seconds_per_step": round(statistics.median(seconds[1:] or seconds), 5),
        "losses": [l[0] if len(l) == 1 else l for l in losses],
    }))


def named(dictionary):
    return ir.DictAttr(dictionary) if not isinstance(dictionary, ir.DictAttr) else dictionary


if __name__ == "__main__":
    main()
