/* awake: see awake.h. */
#include "sys/awake.h"

#include <sched.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "sys/clock.h"
#include "sys/sleeper.h"
#include "sys/thread.h"

/* Work between two waits, in halves of a wait. Less, and most of the core's time would
 * be spent here; more, and what can be won is a hundredth. */
#define WORK_MIN 3u
#define WORK_MAX 10u

/* Waits are compared in rows, one way and then the other: a single one of its kind says
 * nothing, as the host gets used to a core that sleeps, or does not. After both rows
 * come those that go the shorter way, and then it begins anew. */
#define ROW 256u
#define ROWS 16u
#define GAIN_PART 16u /* shorter by this part of it, at least */

/* An average of about so many; what is far longer counts as so many times as long. */
#define AVERAGE_OF 16u
#define OUTLIER 4u

#define LONG_WAIT_NS UINT64_C(1000000)   /* nobody waits so long for tens of microseconds */
#define NOBODY_WAITS_NS UINT64_C(100000) /* then the helper sleeps */
#define LOOKS 32u                        /* between two looks at the clock */

struct awake {
	/* The owner's. */
	uint64_t began_ns, ended_ns;
	uint64_t work_ns, wait_ns; /* averages */
	uint32_t turn;             /* of those that are worth it */
	uint64_t row_ns[2];        /* asleep, awake */
	bool worth_it, is_awake;   /* this wait */
	bool started;              /* the helper, or it was tried */
	int cpu;                   /* where the helper was told to be */

	struct thread thread;
	struct sleeper idle;
	atomic_bool waiting;
	atomic_bool stop;
};

static inline void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Until nobody has waited for a while, or somebody waits for too long. */
static void turn(const struct awake *awake)
{
	uint64_t since_ns = clock_monotonic_ns(), ns;
	bool waiting = true;

	do {
		for (uint32_t i = 0; i < LOOKS; i++)
			relax();
		ns = clock_monotonic_ns() - since_ns;
		if (atomic_load_explicit(&awake->waiting, memory_order_relaxed) != waiting) {
			waiting = !waiting;
			since_ns += ns;
			ns = 0;
		}
	} while (ns < (waiting ? LONG_WAIT_NS : NOBODY_WAITS_NS) &&
	         !atomic_load_explicit(&awake->stop, memory_order_relaxed));
}

static void run(void *user)
{
	struct awake *awake = user;

	thread_run_last();
	while (!atomic_load(&awake->stop)) {
		turn(awake);
		sleeper_sleep(&awake->idle, -1);
	}
}

struct awake *awake_new(uint64_t now_ns)
{
	struct awake *awake = mem_zalloc(1, sizeof(*awake));

	if (!awake)
		return NULL;
	awake->ended_ns = now_ns;
	awake->cpu = -1;
	sleeper_init(&awake->idle);
	return awake;
}

struct awake *awake_free(struct awake *awake)
{
	if (!awake)
		return NULL;
	atomic_store(&awake->stop, true);
	sleeper_wake(&awake->idle);
	thread_join(&awake->thread);
	return mem_free(awake);
}

static uint64_t clip(uint64_t average, uint64_t ns)
{
	return ns < average * OUTLIER ? ns : average * OUTLIER;
}

static void learn(uint64_t *average, uint64_t ns)
{
	*average = *average == 0 ? ns
	                         : (*average * (AVERAGE_OF - 1) + clip(*average, ns)) / AVERAGE_OF;
}

static bool is_worth_it(const struct awake *awake)
{
	return awake->work_ns * 2 >= awake->wait_ns * WORK_MIN &&
	       awake->work_ns * 2 <= awake->wait_ns * WORK_MAX;
}

static bool is_shorter(const struct awake *awake)
{
	return awake->row_ns[true] < awake->row_ns[false] - awake->row_ns[false] / GAIN_PART;
}

static bool choose(struct awake *awake)
{
	uint32_t row = awake->turn / ROW;

	if (awake->turn == 0)
		awake->row_ns[false] = awake->row_ns[true] = 0;
	return row == 0 ? false : row == 1 ? true : is_shorter(awake);
}

static void note_turn(struct awake *awake, uint64_t ns)
{
	if (awake->turn / ROW < 2)
		awake->row_ns[awake->turn / ROW] += clip(awake->wait_ns, ns);
	awake->turn = (awake->turn + 1) % (ROW * ROWS);
}

/* The helper is where the owner is, and does not sleep. */
static void call_helper(struct awake *awake)
{
	int cpu = sched_getcpu();

	if (cpu < 0)
		return;
	if (!awake->started) {
		awake->started = true;
		int error = thread_start(&awake->thread,
		                         &(struct thread_options){ .name = "stile-awake",
		                                                   .cpu = cpu,
		                                                   .run = run,
		                                                   .user = awake });
		awake->cpu = error == 0 ? cpu : -1;
	}
	if (!awake->thread.running)
		return;
	if (cpu != awake->cpu)
		thread_move(&awake->thread, cpu);
	awake->cpu = cpu;
	sleeper_wake(&awake->idle);
}

bool awake_begin(struct awake *awake, uint64_t now_ns)
{
	learn(&awake->work_ns, now_ns - awake->ended_ns);
	awake->began_ns = now_ns;
	awake->worth_it = is_worth_it(awake);
	awake->is_awake = awake->worth_it && choose(awake);
	if (awake->is_awake) {
		atomic_store(&awake->waiting, true);
		call_helper(awake);
	}
	return awake->is_awake;
}

void awake_end(struct awake *awake, uint64_t now_ns)
{
	uint64_t ns = now_ns - awake->began_ns;

	if (awake->is_awake)
		atomic_store_explicit(&awake->waiting, false, memory_order_release);
	if (awake->worth_it)
		note_turn(awake, ns);
	learn(&awake->wait_ns, ns);
	awake->ended_ns = now_ns;
}
