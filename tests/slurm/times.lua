-- SPDX-License-Identifier: GPL-2.0
--
-- How long packaging/slurm/loga.lua takes with a table of 1,250 nodes of eight GPUs, outside Slurm and
-- with no jobs. Arguments: the path of loga.lua, and a folder to write a table into. Prints the
-- median and the most of some tries, in ms of processor time: for a table that is new, and for one that
-- was read before.

local script, folder = arg[1], arg[2]
local TRIES = 25
local NODES = 1250
local PARTS = {
	all = { nodes = "node[0001-1250]", flag_default = 1 },
	last = { nodes = "node1250", flag_default = 0 },
}
slurm = { jobs = {}, log_error = print, log_info = function() end }

-- Best first; `shards` of each GPU.
local function table_of(shards)
	local rows = { "# loga-slurm-table 2 " .. os.time() }
	for at = 0, NODES * 8 - 1 do
		rows[#rows + 1] = string.format("node%04d %d %.3f 1 %d 64 512000",
			math.floor(at / 8) + 1, at % 8, at / (NODES * 8), shards)
	end
	return table.concat(rows, "\n") .. "\n"
end

local loga
local function place(partition)
	local start = os.clock()
	local node, why = loga.place({
		tres_per_node = "gres:shard:1", min_nodes = 1, min_cpus = 1, partition = partition,
	}, PARTS, 1)
	return (os.clock() - start) * 1000, node, why
end

local function line(what, times)
	table.sort(times)
	print(string.format("%-48s %6.2f %6.2f", what, times[math.ceil(#times / 2)], times[#times]))
end

local function measure(what, shards, partition, wanted)
	local content = table_of(shards)
	local first, later = {}, {}
	for try = 1, TRIES do
		-- What the script remembers is gone, and the table is another one.
		loga = dofile(script)
		loga.path = folder .. "/table"
		local file = assert(io.open(loga.path, "w"))
		file:write((content:gsub(" 512000", " " .. 512000 + try)))
		file:close()
		collectgarbage()
		local took, node, why = place(partition)
		assert(node == wanted or why == wanted, tostring(why))
		first[try] = took
		later[try] = place(partition)
	end
	line(what .. ", new table", first)
	line(what .. ", table of before", later)
end

print(string.format("%-48s %6s %6s", "ms", "median", "most"))
measure("best GPU has room", 4, "all", "node0001")
measure("only the last node is in the partition", 4, "last", "node1250")
measure("no GPU has room", 0, "all", "no GPU with room")
