"""Names of the standard library that a header says without a header of theirs among what it includes.

A name counts as there when a header that the standard gives it to is included, by the header itself or by one of partita's that
it includes: what headers of the standard library include of each other, another library does otherwise.
"""
import re

# Some names have several headers; any of them will do. Names that many headers give (begin, size, get, swap) are left out.
NAMES_OF = {
    "algorithm": """
        adjacent_find all_of any_of binary_search clamp copy copy_if copy_n count count_if equal equal_range fill fill_n find
        find_if find_if_not for_each generate includes inplace_merge is_sorted iter_swap lexicographical_compare lower_bound
        max max_element merge min min_element minmax minmax_element mismatch next_permutation none_of nth_element partial_sort
        partition ranges remove_if replace reverse rotate search set_difference set_intersection set_union shuffle sort
        stable_partition stable_sort swap_ranges transform unique upper_bound""",
    "array": "array to_array",
    "atomic": """
        atomic atomic_bool atomic_flag atomic_int atomic_ref atomic_thread_fence memory_order memory_order_acq_rel
        memory_order_acquire memory_order_relaxed memory_order_release memory_order_seq_cst""",
    "barrier": "barrier",
    "bit": "bit_cast bit_ceil bit_floor bit_width countl_zero countr_one countr_zero endian has_single_bit popcount rotl rotr",
    "cctype": "isalnum isalpha isdigit isprint isspace isupper tolower toupper",
    "charconv": "chars_format from_chars to_chars",
    "chrono": "chrono",
    "cmath": """
        abs acos asin atan cbrt ceil copysign cos erf exp exp2 expm1 fabs floor fma fmax fmin fmod frexp hypot isfinite isinf
        isnan ldexp lgamma llround log log10 log1p log2 lround nan nextafter pow remainder rint round signbit sin sqrt tan
        tanh trunc""",
    "compare": "partial_ordering strong_ordering weak_ordering",
    "complex": "complex",
    "concepts": """
        convertible_to copy_constructible default_initializable derived_from floating_point integral invocable same_as
        signed_integral unsigned_integral""",
    "condition_variable": "condition_variable condition_variable_any cv_status",
    "csignal": "raise sig_atomic_t signal",
    "cstddef": "byte max_align_t nullptr_t ptrdiff_t size_t",
    "cstdint": "int16_t int32_t int64_t int8_t intptr_t uint16_t uint32_t uint64_t uint8_t uintptr_t",
    "cstdio": """
        fclose fflush FILE fopen fprintf fputs fread freopen fseek ftell fwrite perror printf putchar puts rename size_t
        snprintf sscanf""",
    "cstdlib": """
        _Exit abort abs aligned_alloc atexit exit free getenv malloc quick_exit size_t strtod strtof strtol strtoul strtoull
        system""",
    "cstring": "memchr memcmp memcpy memmove memset size_t strchr strcmp strerror strlen strncmp strstr",
    "ctime": "clock gmtime localtime mktime size_t strftime time time_t tm",
    "deque": "deque",
    "exception": """
        current_exception exception exception_ptr get_terminate make_exception_ptr rethrow_exception set_terminate terminate
        terminate_handler uncaught_exceptions""",
    "filesystem": "filesystem",
    "forward_list": "forward_list",
    "fstream": "filebuf fstream ifstream ofstream",
    "functional": """
        bit_and bit_or bit_xor cref divides equal_to function greater greater_equal hash invoke less less_equal minus
        multiplies negate not_equal_to not_fn plus ref reference_wrapper""",
    "future": "async future packaged_task promise shared_future",
    "initializer_list": "initializer_list",
    "iomanip": "quoted setfill setprecision setw",
    "ios": "fixed hex ios ios_base streamsize",
    "iostream": "cerr cin clog cout",
    "istream": "istream",
    "iterator": """
        back_insert_iterator back_inserter bidirectional_iterator_tag forward_iterator_tag input_iterator_tag inserter
        istreambuf_iterator make_move_iterator next prev random_access_iterator_tag reverse_iterator""",
    "latch": "latch",
    "limits": "numeric_limits",
    "list": "list",
    "locale": "locale",
    "map": "map multimap",
    "memory": """
        addressof align allocate_shared allocator allocator_traits assume_aligned const_pointer_cast construct_at destroy_at
        dynamic_pointer_cast enable_shared_from_this make_shared make_unique make_unique_for_overwrite shared_ptr
        static_pointer_cast to_address uninitialized_copy unique_ptr weak_ptr""",
    "memory_resource": "pmr",
    "mutex": "call_once defer_lock lock_guard mutex once_flag recursive_mutex scoped_lock try_to_lock unique_lock",
    "new": "align_val_t bad_alloc launder nothrow nothrow_t",
    "numbers": "numbers",
    "numeric": """
        accumulate adjacent_difference exclusive_scan gcd inclusive_scan inner_product iota lcm midpoint partial_sum reduce
        transform_reduce""",
    "optional": "in_place in_place_t make_optional nullopt nullopt_t optional",
    "ostream": "endl flush ostream",
    "queue": "priority_queue queue",
    "random": """
        bernoulli_distribution discrete_distribution mt19937 mt19937_64 normal_distribution random_device
        uniform_int_distribution uniform_real_distribution""",
    "ranges": "ranges views",
    "ratio": "micro milli nano ratio",
    "regex": "regex regex_match regex_replace regex_search smatch",
    "semaphore": "binary_semaphore counting_semaphore",
    "set": "multiset set",
    "shared_mutex": "shared_lock shared_mutex shared_timed_mutex",
    "source_location": "source_location",
    "span": "as_bytes as_writable_bytes dynamic_extent span",
    "sstream": "istringstream ostringstream stringstream",
    "stack": "stack",
    "stdexcept": "domain_error invalid_argument length_error logic_error out_of_range overflow_error range_error runtime_error",
    "stop_token": "stop_callback stop_source stop_token",
    "string": "char_traits getline stod stof stoi stol stoll stoul stoull string to_string u8string wstring",
    "string_view": "string_view wstring_view",
    "system_error": "errc error_category error_code generic_category make_error_code system_category system_error",
    "thread": "jthread this_thread thread",
    "tuple": "apply forward_as_tuple ignore make_from_tuple make_tuple tie tuple tuple_cat tuple_element_t",
    "type_traits": """
        add_const_t alignment_of_v bool_constant common_type_t conditional_t conjunction_v decay_t disjunction_v enable_if_t
        extent_v false_type integral_constant invoke_result_t is_aggregate_v is_arithmetic_v is_array_v is_base_of_v
        is_class_v is_const_v is_constant_evaluated is_constructible_v is_convertible_v is_copy_constructible_v
        is_default_constructible_v is_empty_v is_enum_v is_floating_point_v is_function_v is_integral_v is_invocable_r_v
        is_invocable_v is_lvalue_reference_v is_move_constructible_v is_nothrow_move_constructible_v is_pointer_v
        is_reference_v is_same is_same_v is_scalar_v is_signed_v is_standard_layout_v is_trivially_copyable_v
        is_trivially_destructible_v is_unsigned_v is_void_v make_signed_t make_unsigned_t negation_v remove_const_t
        remove_cv_t remove_cvref_t remove_pointer_t remove_reference_t true_type type_identity type_identity_t
        underlying_type_t void_t""",
    "typeindex": "type_index",
    "typeinfo": "bad_cast type_info",
    "unordered_map": "unordered_map unordered_multimap",
    "unordered_set": "unordered_multiset unordered_set",
    "utility": """
        as_const cmp_equal cmp_greater cmp_less declval exchange forward in_place in_place_t in_range index_sequence
        index_sequence_for integer_sequence make_index_sequence make_integer_sequence make_pair move move_if_noexcept pair
        piecewise_construct""",
    "valarray": "valarray",
    "variant": "get_if holds_alternative monostate variant visit",
    "vector": "vector",
}
# What a header gives of another's names, by the standard.
STREAMS = ["ios", "istream", "ostream"]
GIVES = {"iostream": STREAMS, "fstream": STREAMS, "sstream": STREAMS, "ostream": ["ios"], "istream": ["ios"],
         **{container: ["initializer_list"] for container in ("algorithm", "map", "set", "string", "utility", "vector")}}

HEADERS_OF = {}
for of, names in NAMES_OF.items():
    for one in names.split():
        HEADERS_OF.setdefault(one, set()).add(of)

# Comments, strings and characters; the ' between digits opens no character.
NO_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.[^'\n]*|[^'\\\n])'""", re.DOTALL)
NAME = re.compile(r"\bstd::(\w+)")
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<([^>]+)>", re.MULTILINE)


def findings(headers):
    """headers: {"partita/core/axis.hpp": its text}. Returns a line for each header and name that is not there."""
    included = {header: INCLUDE.findall(text) for header, text in headers.items()}
    errors = []
    for header, text in sorted(headers.items()):
        reached, stack = set(), [header]
        while stack:
            for name in included.get(stack.pop(), ()):
                if name not in reached:
                    reached.add(name)
                    stack.append(name)
        for name in list(reached):
            reached.update(GIVES.get(name, ()))
        for name in sorted(set(NAME.findall(NO_CODE.sub(" ", text)))):
            homes = HEADERS_OF.get(name)
            if homes and not homes & reached:
                errors.append(f"{header}: std::{name} without <{'> or <'.join(sorted(homes))}>")
    return errors
