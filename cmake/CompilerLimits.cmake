# Plans are proved in constant evaluation, which every compiler meters in a unit of its own. A 12-layer model exceeds
# g++'s default; these let a larger one be proved. g++ also collects its garbage from 512 MiB on, not from 128:
# that is a tenth of what a program with a trainer takes to compile, for 0.4 GB more of memory (docs/compile-time.md).
set(partita_limits_gnu -fconstexpr-ops-limit=1000000000 -fconstexpr-loop-limit=10000000 -fconstexpr-depth=2048
  --param=ggc-min-heapsize=524288)
set(partita_limits_clang -fconstexpr-steps=1000000000 -fconstexpr-depth=2048)

# nvcc reads the code with a front end of its own, then hands the host part to the host compiler, which evaluates it
# once more. CMake 3.25 knows no C++20 for CUDA: cuda_std_20 is a configure error, so the flag is spelled.
list(TRANSFORM partita_limits_gnu PREPEND "-Xcompiler=" OUTPUT_VARIABLE partita_limits_gnu_host)
list(TRANSFORM partita_limits_clang PREPEND "-Xcompiler=" OUTPUT_VARIABLE partita_limits_clang_host)
set(partita_limits
  "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:${partita_limits_gnu}>"
  "$<$<COMPILE_LANG_AND_ID:CXX,Clang,AppleClang>:${partita_limits_clang}>"
  "$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-std=c++20>"
  "$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:SHELL:-Xcudafe --max_cost_constexpr_call=1000000000>"
  "$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:SHELL:-Xcudafe --max_depth_constexpr_call=2048>"
  "$<$<AND:$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>,$<CXX_COMPILER_ID:GNU>>:${partita_limits_gnu_host}>"
  "$<$<AND:$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>,$<CXX_COMPILER_ID:Clang>>:${partita_limits_clang_host}>")
