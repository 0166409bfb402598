#pragma once
/// @file wgmma_asm.hpp
/// The PTX text of wgmma.mma_async, for CUDA builds. Kernel sources include wgmma.hpp.
///
/// Inline PTX wants every accumulator register spelt out, in the text and as an operand. So there
/// is one specialisation of WgmmaAsm for each number of registers and kind of register; everything
/// else (shape, types, immediates) is text that the compiler puts in (constraint "C").

#include <rungs/ptx/wgmma_types.hpp>

#if RUNGS_GPU_CUDA
#include <rungs/ptx/wgmma_registers.hpp>

#include <utility>

namespace rungs::ptx::detail {

/// Text put together at compile time.
struct WgmmaText {
  char text[48] = {};
  std::size_t size = 0;

  RUNGS_HD constexpr WgmmaText& add(const char* more) {
    while (*more != 0) text[size++] = *more++;
    return *this;
  }
  RUNGS_HD constexpr WgmmaText& add(int number) {
    if (number >= 10) add(number / 10);
    text[size++] = static_cast<char>('0' + number % 10);
    return *this;
  }
};

template <class T>
RUNGS_HD constexpr const char* wgmma_name() {
  return std::is_same_v<T, float>          ? ".f32"
         : std::is_same_v<T, f16>          ? ".f16"
         : std::is_same_v<T, std::int32_t> ? ".s32"
         : std::is_same_v<T, bf16>         ? ".bf16"
         : std::is_same_v<T, tf32>         ? ".tf32"
         : std::is_same_v<T, f8e4m3>       ? ".e4m3"
         : std::is_same_v<T, f8e5m2>       ? ".e5m2"
         : std::is_same_v<T, std::int8_t>  ? ".s8"
                                           : ".u8";
}

/// "m64n128k16.f32.bf16.bf16"
template <int N, class D, class A, class B, WgmmaModifiers M>
struct WgmmaShape {
  static RUNGS_HD constexpr WgmmaText make() {
    WgmmaText text;
    text.add("m64n").add(N).add("k").add(kWgmmaDepth<A>);
    text.add(wgmma_name<D>()).add(wgmma_name<A>()).add(wgmma_name<B>());
    return text.add((M & kWgmmaSatfinite) != 0 ? ".satfinite" : "");
  }
};

/// ", 1, -1, 0, 1": what follows the predicate: signs, then transpositions, as far as the types
/// have them.
template <class A, WgmmaModifiers M, bool AInRegisters>
struct WgmmaImmediates {
  static RUNGS_HD constexpr WgmmaText make() {
    WgmmaText text;
    if (kIsInteger8<A>) return text;
    text.add((M & kWgmmaNegateA) != 0 ? ", -1" : ", 1");
    text.add((M & kWgmmaNegateB) != 0 ? ", -1" : ", 1");
    if (!kIsHalf<A>) return text;
    if (!AInRegisters) text.add((M & kWgmmaTransposeA) != 0 ? ", 1" : ", 0");
    return text.add((M & kWgmmaTransposeB) != 0 ? ", 1" : ", 0");
  }
};

/// The text as the constraint "C" wants it: an array, its size exact.
template <class Maker, class = std::make_index_sequence<Maker::make().size>>
struct WgmmaChars;
template <class Maker, std::size_t... I>
struct WgmmaChars<Maker, std::index_sequence<I...>> {
  static constexpr char text[] = {Maker::make().text[I]..., 0};
};

template <bool Floats, int Registers>
struct WgmmaAsm;

// `names` and `...`: the accumulators. i0 to i7: the numbers of the operands behind them.
#define RUNGS_WGMMA(floats, count, names, i0, i1, i2, i3, i4, i5, i6, i7, ...)                   \
  template <>                                                                                    \
  struct WgmmaAsm<floats, count> {                                                               \
    template <class Shape, class Immediates, class Register>                                     \
    static RUNGS_DEVICE void from_shared(Register (&d)[count], std::uint64_t a, std::uint64_t b, \
                                         bool accumulate) {                                      \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #i2                                      \
                   ", 0;\nwgmma.mma_async.sync.aligned.%" #i3 " {" names "}, %" #i0 ", %" #i1    \
                   ", p%" #i4 ";\n}"                                                             \
                   : __VA_ARGS__                                                                 \
                   : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)), "C"(Shape::text),        \
                     "C"(Immediates::text)                                                       \
                   : "memory");                                                                  \
    }                                                                                            \
    template <class Shape, class Immediates, class Register>                                     \
    static RUNGS_DEVICE void from_registers(Register (&d)[count], const std::uint32_t (&a)[4],   \
                                            std::uint64_t b, bool accumulate) {                  \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #i5                                      \
                   ", 0;\nwgmma.mma_async.sync.aligned.%" #i6 " {" names "}, {%" #i0 ", %" #i1   \
                   ", %" #i2 ", %" #i3 "}, %" #i4 ", p%" #i7 ";\n}"                              \
                   : __VA_ARGS__                                                                 \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                         \
                     "r"(static_cast<int>(accumulate)), "C"(Shape::text), "C"(Immediates::text)  \
                   : "memory");                                                                  \
    }                                                                                            \
  }

#define RUNGS_WGMMA_FLOATS(count, ...)                             \
  RUNGS_WGMMA(true, count, RUNGS_WGMMA_NAMES_##count, __VA_ARGS__, \
              RUNGS_WGMMA_OPERANDS_##count("+f"))
#define RUNGS_WGMMA_WORDS(count, ...)                               \
  RUNGS_WGMMA(false, count, RUNGS_WGMMA_NAMES_##count, __VA_ARGS__, \
              RUNGS_WGMMA_OPERANDS_##count("+r"))

// f32: N / 2 registers
RUNGS_WGMMA_FLOATS(4, 4, 5, 6, 7, 8, 9, 10, 11);
RUNGS_WGMMA_FLOATS(8, 8, 9, 10, 11, 12, 13, 14, 15);
RUNGS_WGMMA_FLOATS(12, 12, 13, 14, 15, 16, 17, 18, 19);
RUNGS_WGMMA_FLOATS(16, 16, 17, 18, 19, 20, 21, 22, 23);
RUNGS_WGMMA_FLOATS(20, 20, 21, 22, 23, 24, 25, 26, 27);
RUNGS_WGMMA_FLOATS(24, 24, 25, 26, 27, 28, 29, 30, 31);
RUNGS_WGMMA_FLOATS(28, 28, 29, 30, 31, 32, 33, 34, 35);
RUNGS_WGMMA_FLOATS(32, 32, 33, 34, 35, 36, 37, 38, 39);
RUNGS_WGMMA_FLOATS(36, 36, 37, 38, 39, 40, 41, 42, 43);
RUNGS_WGMMA_FLOATS(40, 40, 41, 42, 43, 44, 45, 46, 47);
RUNGS_WGMMA_FLOATS(44, 44, 45, 46, 47, 48, 49, 50, 51);
RUNGS_WGMMA_FLOATS(48, 48, 49, 50, 51, 52, 53, 54, 55);
RUNGS_WGMMA_FLOATS(52, 52, 53, 54, 55, 56, 57, 58, 59);
RUNGS_WGMMA_FLOATS(56, 56, 57, 58, 59, 60, 61, 62, 63);
RUNGS_WGMMA_FLOATS(60, 60, 61, 62, 63, 64, 65, 66, 67);
RUNGS_WGMMA_FLOATS(64, 64, 65, 66, 67, 68, 69, 70, 71);
RUNGS_WGMMA_FLOATS(68, 68, 69, 70, 71, 72, 73, 74, 75);
RUNGS_WGMMA_FLOATS(72, 72, 73, 74, 75, 76, 77, 78, 79);
RUNGS_WGMMA_FLOATS(76, 76, 77, 78, 79, 80, 81, 82, 83);
RUNGS_WGMMA_FLOATS(80, 80, 81, 82, 83, 84, 85, 86, 87);
RUNGS_WGMMA_FLOATS(84, 84, 85, 86, 87, 88, 89, 90, 91);
RUNGS_WGMMA_FLOATS(88, 88, 89, 90, 91, 92, 93, 94, 95);
RUNGS_WGMMA_FLOATS(92, 92, 93, 94, 95, 96, 97, 98, 99);
RUNGS_WGMMA_FLOATS(96, 96, 97, 98, 99, 100, 101, 102, 103);
RUNGS_WGMMA_FLOATS(100, 100, 101, 102, 103, 104, 105, 106, 107);
RUNGS_WGMMA_FLOATS(104, 104, 105, 106, 107, 108, 109, 110, 111);
RUNGS_WGMMA_FLOATS(108, 108, 109, 110, 111, 112, 113, 114, 115);
RUNGS_WGMMA_FLOATS(112, 112, 113, 114, 115, 116, 117, 118, 119);
RUNGS_WGMMA_FLOATS(116, 116, 117, 118, 119, 120, 121, 122, 123);
RUNGS_WGMMA_FLOATS(120, 120, 121, 122, 123, 124, 125, 126, 127);
RUNGS_WGMMA_FLOATS(124, 124, 125, 126, 127, 128, 129, 130, 131);
RUNGS_WGMMA_FLOATS(128, 128, 129, 130, 131, 132, 133, 134, 135);
// f16: N / 4 registers; s32: N / 2
RUNGS_WGMMA_WORDS(2, 2, 3, 4, 5, 6, 7, 8, 9);
RUNGS_WGMMA_WORDS(4, 4, 5, 6, 7, 8, 9, 10, 11);
RUNGS_WGMMA_WORDS(6, 6, 7, 8, 9, 10, 11, 12, 13);
RUNGS_WGMMA_WORDS(8, 8, 9, 10, 11, 12, 13, 14, 15);
RUNGS_WGMMA_WORDS(10, 10, 11, 12, 13, 14, 15, 16, 17);
RUNGS_WGMMA_WORDS(12, 12, 13, 14, 15, 16, 17, 18, 19);
RUNGS_WGMMA_WORDS(14, 14, 15, 16, 17, 18, 19, 20, 21);
RUNGS_WGMMA_WORDS(16, 16, 17, 18, 19, 20, 21, 22, 23);
RUNGS_WGMMA_WORDS(18, 18, 19, 20, 21, 22, 23, 24, 25);
RUNGS_WGMMA_WORDS(20, 20, 21, 22, 23, 24, 25, 26, 27);
RUNGS_WGMMA_WORDS(22, 22, 23, 24, 25, 26, 27, 28, 29);
RUNGS_WGMMA_WORDS(24, 24, 25, 26, 27, 28, 29, 30, 31);
RUNGS_WGMMA_WORDS(26, 26, 27, 28, 29, 30, 31, 32, 33);
RUNGS_WGMMA_WORDS(28, 28, 29, 30, 31, 32, 33, 34, 35);
RUNGS_WGMMA_WORDS(30, 30, 31, 32, 33, 34, 35, 36, 37);
RUNGS_WGMMA_WORDS(32, 32, 33, 34, 35, 36, 37, 38, 39);
RUNGS_WGMMA_WORDS(34, 34, 35, 36, 37, 38, 39, 40, 41);
RUNGS_WGMMA_WORDS(36, 36, 37, 38, 39, 40, 41, 42, 43);
RUNGS_WGMMA_WORDS(38, 38, 39, 40, 41, 42, 43, 44, 45);
RUNGS_WGMMA_WORDS(40, 40, 41, 42, 43, 44, 45, 46, 47);
RUNGS_WGMMA_WORDS(42, 42, 43, 44, 45, 46, 47, 48, 49);
RUNGS_WGMMA_WORDS(44, 44, 45, 46, 47, 48, 49, 50, 51);
RUNGS_WGMMA_WORDS(46, 46, 47, 48, 49, 50, 51, 52, 53);
RUNGS_WGMMA_WORDS(48, 48, 49, 50, 51, 52, 53, 54, 55);
RUNGS_WGMMA_WORDS(50, 50, 51, 52, 53, 54, 55, 56, 57);
RUNGS_WGMMA_WORDS(52, 52, 53, 54, 55, 56, 57, 58, 59);
RUNGS_WGMMA_WORDS(54, 54, 55, 56, 57, 58, 59, 60, 61);
RUNGS_WGMMA_WORDS(56, 56, 57, 58, 59, 60, 61, 62, 63);
RUNGS_WGMMA_WORDS(58, 58, 59, 60, 61, 62, 63, 64, 65);
RUNGS_WGMMA_WORDS(60, 60, 61, 62, 63, 64, 65, 66, 67);
RUNGS_WGMMA_WORDS(62, 62, 63, 64, 65, 66, 67, 68, 69);
RUNGS_WGMMA_WORDS(64, 64, 65, 66, 67, 68, 69, 70, 71);
RUNGS_WGMMA_WORDS(72, 72, 73, 74, 75, 76, 77, 78, 79);
RUNGS_WGMMA_WORDS(80, 80, 81, 82, 83, 84, 85, 86, 87);
RUNGS_WGMMA_WORDS(88, 88, 89, 90, 91, 92, 93, 94, 95);
RUNGS_WGMMA_WORDS(96, 96, 97, 98, 99, 100, 101, 102, 103);
RUNGS_WGMMA_WORDS(104, 104, 105, 106, 107, 108, 109, 110, 111);
RUNGS_WGMMA_WORDS(112, 112, 113, 114, 115, 116, 117, 118, 119);
RUNGS_WGMMA_WORDS(120, 120, 121, 122, 123, 124, 125, 126, 127);
RUNGS_WGMMA_WORDS(128, 128, 129, 130, 131, 132, 133, 134, 135);

#undef RUNGS_WGMMA
#undef RUNGS_WGMMA_FLOATS
#undef RUNGS_WGMMA_WORDS

}  // namespace rungs::ptx::detail
#endif
