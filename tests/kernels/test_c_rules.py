"""The kernels use nothing that Microsoft's compiler lacks, and the check of it notices what it must."""

import shutil

import pytest

from tests import c_rules

COMPILER = shutil.which("gcc") or shutil.which("clang")


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("typedef double _Complex fa_complex;", ["_Complex"]),
        ("double f(z *x)\n{\n    return __real__ *x + __imag__ *x;\n}", ["__real__", "__imag__"]),
        ("#include <complex.h>", ["<complex.h>"]),
        ("#include <unistd.h>", ["<unistd.h>"]),
        ("double f(double x) { return __builtin_fma(x, x, x); }", ["__builtin_fma"]),
        ("#if defined(__GNUC__)\n#else\nint f(void) __attribute__((unused));\n#endif", ["__attribute__"]),
        ("#if !defined(__GNUC__) && \\\n    defined(_WIN32)\n__thread int x;\n#endif", ["__thread"]),
        ("#ifdef _MSC_VER\n__int128 x;\n#endif", ["__int128"]),
        ("#if 0\n#elif 201112L > 199901L\n__typeof__(1) x;\n#else\n__int128 y;\n#endif", ["__typeof__"]),
        ("int x = ({ 1; });", ["({"]),
        ("#ifndef A_H\n#define A_H\n#if 1 != 1\nasm(0);\n#endif\nasm(0);\n#endif", ["asm"]),
        ("#if defined(__GNUC__) || defined(__clang__)\nint f(void) __attribute__((unused));\n#endif", []),
        ("#if defined(_MSC_VER)\nint x;\n#else\n_Thread_local int x;\n#endif", []),
        ("#ifdef FA_HAS_FMA\ndouble f(double x) { return __builtin_fma(x, x, x); }\n#endif", []),
        ('/* _Complex\n * __real__ */ // __imag__\nchar *s = "__int128 \\" asm", c = \'"\';', []),
        ("#include <math.h>\nstatic const double a[2] = {[1] = 0x1p-1074};", []),
    ],
)
def test_what_is_lacked_is_found_unless_it_is_hidden(source, found):
    assert [word for _, word in c_rules.faults(source)] == found


def test_the_line_is_named():
    source = "/* one\n two */\n#define A \\\n    1\nint b;\n_Complex double z;\n"
    assert list(c_rules.faults(source)) == [(6, "_Complex")]


@pytest.mark.skipif(COMPILER is None, reason="no compiler")
@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("int f(int n) { double a[n]; a[0] = n; return (int)a[0]; }", "variable length"),
        ("int f(int n) { return n ?: 1; }", "middle"),
        ("int f(int n) { return n; }", ""),
        (c_rules.ONE_LEVEL, ""),
    ],
)
def test_a_compiler_looks_for_arrays_of_variable_length(source, said):
    assert COMPILER is not None
    found = c_rules.complaints(COMPILER, source)
    assert said in found
    assert bool(found) == bool(said)


def test_the_kernels_use_nothing_of_it(capsys):
    assert c_rules.main() == 0
    assert "compiler\n" not in capsys.readouterr().out
