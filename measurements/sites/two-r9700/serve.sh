#!/bin/sh
# Two 32 GB R9700, Qwen3.8-Flash-Next in the iq4r container: the split is derived from a ratio.
exec radiance \
  --model /models/qwen3.8-next-flash-fp8-iq4r-moe.rad \
  --tp 2 \
  --max-num-seqs 2 \
  --max-model-len 262144 \
  --kv-cache-dtype fp8 \
  --num-speculative-tokens 3 \
  --max-num-batched-tokens 2048 \
  --placement expert_tiered \
  --expert-vs-cache-ratio 0.82 \
  --host-pool-mib 12288 \
  --ngram-placement disk \
  --gpu-headroom-mib 512 \
  --no-prefix-cache
